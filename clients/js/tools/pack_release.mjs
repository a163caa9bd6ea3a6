// `npm run pack:release [-- ADDRESS]`: a tarball to publish, whose package.json says where the source is.
// The committed package.json says no address: a copy of the source that moved would keep a wrong one.
import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const folder = fileURLToPath(new URL("..", import.meta.url));

/** The address as npm wants it, without credentials; null: it is none that others can reach. */
function publicAddress(given) {
  const short = /^(?:[^@/\s]+@)?([^:/\s]+):(?!\/\/)(\S+)$/.exec(given); // git@host:path
  const secure = /^(?:git\+)?https:\/\/(?:[^@/\s]+@)?([^@/\s]+)\/(\S+)$/.exec(given);
  const other = /^(?:git\+)?(?:ssh|git):\/\/(?:[^@/\s]+@)?([^@:/\s]+)(?::\d+)?\/(\S+)$/.exec(given);
  const [, host, path] = secure ?? other ?? short ?? [];
  if (!host?.includes(".")) return null;
  return `git+https://${host}/${path.replace(/^\/+|\/+$/g, "").replace(/\.git$/, "")}.git`;
}

function origin() {
  try {
    const quiet = { cwd: folder, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] };
    return execFileSync("git", ["remote", "get-url", "origin"], quiet).trim();
  } catch {
    return "";
  }
}

const url = publicAddress(process.argv[2] ?? process.env.TIDEGATE_REPOSITORY ?? origin());
if (url === null) {
  console.error("pack:release: the public address of the source is not known; add it as the git remote origin, or give it: npm run pack:release -- https://HOST/PATH");
  process.exit(1);
}
const staged = mkdtempSync(join(tmpdir(), "tidegate-client-"));
try {
  const content = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  for (const name of [...content.files, "README.md", "LICENSE"]) cpSync(join(folder, name), join(staged, name), { recursive: true });
  const { scripts, ...shipped } = content; // they need files that are not shipped
  const whole = { ...shipped, repository: { type: "git", url, directory: "clients/js" } };
  writeFileSync(join(staged, "package.json"), `${JSON.stringify(whole, null, 2)}\n`);
  execFileSync("npm", ["pack", "--silent", "--offline", "--pack-destination", process.cwd()], { cwd: staged, stdio: ["ignore", "inherit", "inherit"] });
} finally {
  rmSync(staged, { recursive: true });
}
