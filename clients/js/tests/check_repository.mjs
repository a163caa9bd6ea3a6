// Runs before `npm publish`. The source has no public address yet, and a made-up one would lead readers
// to whoever registers it: so the package says none, and is not published until it does.
import { readFileSync } from "node:fs";

const { repository } = JSON.parse(readFileSync(process.argv[2] ?? "package.json", "utf8"));
if (!/^(git\+)?https:\/\/\S+$/.test(repository?.url ?? "")) {
  console.error('package.json: give "repository": {"type": "git", "url": "https://…", "directory": "clients/js"}, the public address of the source');
  process.exit(1);
}
