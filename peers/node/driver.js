'use strict';
// A lock library from npm on one server, told what to do by lines of JSON: ../README.md has the words.
//
//   node driver.js FOLDER LIBRARY PORT
//
// FOLDER is the one that holds node_modules.

const fs = require('node:fs');
const path = require('node:path');
const readline = require('node:readline');
const { createRequire } = require('node:module');
const libraries = require('./libraries');

const [folder, wanted, port] = process.argv.slice(2);
const load = createRequire(path.join(path.resolve(folder), 'here.js'));
const library = libraries[wanted];
if (!library) throw new Error(`a library that nobody knows: ${wanted}`);

// Not every package lets its package.json be required.
function version(name) {
  const manifest = path.join(folder, 'node_modules', name, 'package.json');
  return JSON.parse(fs.readFileSync(manifest, 'utf8')).version.replace(/^v/, '');
}

const peer = library(load, Number(port));
const locks = new Map();

async function obey({ do: verb, name, ttl_ms: ttl, tries, lock }) {
  switch (verb) {
    case 'acquire': {
      const got = await peer.acquire(name, ttl, tries);
      const id = locks.size + 1;
      locks.set(id, got);
      return { got: id };
    }
    // Some throw when they are late and some return false; some do not say.
    case 'extend':
      return (await locks.get(lock).extend(ttl)) === false ? { refused: 'false' } : { done: true };
    case 'release':
      return (await locks.get(lock).release()) === false ? { refused: 'false' } : { done: true };
    default:
      throw new Error(`a word that nobody knows: ${verb}`);
  }
}

async function answer(line) {
  try {
    return await obey(JSON.parse(line));
  } catch (error) {
    const kind = peer.refusals.some((refusal) => error instanceof refusal) ? 'refused' : 'broken';
    return { [kind]: `${error.name}: ${error.message}` };
  }
}

const say = (words) => process.stdout.write(`${JSON.stringify(words)}\n`);

(async () => {
  say({ version: version(wanted) });
  for await (const line of readline.createInterface({ input: process.stdin })) say(await answer(line));
  // Open connections would keep the process.
  process.exit(0);
})();
