/** Answers rounds 0, 1, … until it is killed; prints what it sends. Run by file_storage.test.js. */

import { Client } from "../src/index.js";
import { FileStorage } from "../src/storage/file.js";

const [folder, text] = process.argv.slice(2);
const storage = new FileStorage(folder);
const client = await Client.open({ epsilon: 1, bound: 100, lifetime: 1000, storage });
for (let index = 0; index < 1000; index += 1) {
  const asked = { ...JSON.parse(text), round: `r${index}` };
  const { round, report } = await client.answer(asked, index % 100, { event: `${index}` });
  process.stdout.write(`${JSON.stringify([round, report])}\n`);
}
