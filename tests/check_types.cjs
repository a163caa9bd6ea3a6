// Checks TypeScript projects, and writes the declarations of those that ask for it:
//
//     node check_types.cjs COMPILER CONFIG...
//
// In one process, since each would load the compiler again, and read what it declares.

const [compiler, ...configs] = process.argv.slice(2);
const ts = require(compiler);
const installed = ts.sys.resolvePath(`${compiler}/..`);
const declarations = new Map();
let wrong = 0;

for (const config of configs) {
  const format = (found) => ts.formatDiagnostics(found, ts.createCompilerHost({}));
  const refuse = (problem) => { throw new Error(format([problem])); };
  const host = { ...ts.sys, onUnRecoverableConfigFileDiagnostic: refuse };
  const { fileNames, options, errors } = ts.getParsedCommandLineOfConfigFile(config, {}, host);
  const compiling = ts.createCompilerHost(options);
  const read = compiling.getSourceFile;
  compiling.getSourceFile = (name, how, ...more) => {
    if (!name.startsWith(installed)) return read(name, how, ...more);
    const { languageVersion, impliedNodeFormat, jsDocParsingMode } = how;
    const kind = [name, languageVersion, impliedNodeFormat, jsDocParsingMode].join();
    if (!declarations.has(kind)) declarations.set(kind, read(name, how, ...more));
    return declarations.get(kind);
  };
  const program = ts.createProgram(fileNames, options, compiling);
  const found = [...errors, ...ts.getPreEmitDiagnostics(program)];
  if (!options.noEmit) found.push(...program.emit().diagnostics);
  wrong += found.length;
  process.stdout.write(format(found));
}
process.exit(wrong ? 1 : 0);
