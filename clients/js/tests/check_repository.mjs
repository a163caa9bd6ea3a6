// Runs before `npm publish` of this folder, whose package.json says no address of the source: a made-up one
// would lead readers to whoever registers it. `npm run pack:release` makes a tarball that says it.
import { readFileSync } from "node:fs";

const { repository } = JSON.parse(readFileSync(process.argv[2] ?? "package.json", "utf8"));
if (!/^(git\+)?https:\/\/\S+$/.test(repository?.url ?? "")) {
  console.error('package.json has no "repository". Run npm run pack:release, and publish the tarball that it makes.');
  process.exit(1);
}
