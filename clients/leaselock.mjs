// Hold a lock of leaselock: one file, no dependencies, Node 20 or later on Linux.
//
//     const lease = await hold("nightly", { ttl: "30s" });     // Node 24: await using lease = …
//     try {
//       for (const part of work) {
//         lease.check();                                        // throws Lost
//         await store(part, { fence: lease.fence, signal: lease.signal });
//       }
//     } finally {
//       await lease.release();
//     }
//
// The lock is held by a child process, `leaselock hold`: LEASELOCK_BIN, else `leaselock` on PATH.
// Its page, docs/hold.md, says what happens when this process or the child dies.

import { spawn } from "node:child_process";
import { uptime } from "node:os";

// os.uptime() counts suspend as leases do, in steps of 10 ms, rounded down.
const STEP_MS = 10;
// A renewal that is on its way is waited for so long before a loss is declared.
const GRACE_MS = 100;
// A release that takes longer is left to the child: it may be frozen.
const RELEASE_MS = 5000;
// A timer of Node's takes no longer pause.
const LONGEST_TIMER_MS = 2 ** 31 - 1;
const NO_PROGRAM = ["ENOENT", "EACCES", "ENOEXEC", "ENOTDIR"];

/** The lock could not be taken or released; `exitCode` says why, as in docs/command.md. */
export class LeaselockError extends Error {
  constructor(text, exitCode) {
    super(text);
    this.name = new.target.name;
    this.exitCode = exitCode;
  }
}
/** Another holder has the lock, and the wait is over. */
export class Busy extends LeaselockError {}
/**
 * The lease is over: stop the work that it protects. `reason` is the word of the event, if one came.
 *
 * When `release` has ended, `by` and `why` say who broke the lease, if an operator did and that is known.
 */
export class Lost extends LeaselockError {
  by = null;
  why = null;
}
/** There is no leaselock to start. */
export class Missing extends LeaselockError {}

/**
 * Waits for the lock of this name and resolves to its lease.
 *
 * `flags` are those of `leaselock hold`: { ttl: "30s", wait: "5m", nonblock: true, maxHold: "1h", also: ["b"] }. A
 * number is seconds. `kill: true`: this process is ended before the lease is lost; `kill: PID`: that one. `url` goes to
 * the child by its environment, because every user can read arguments.
 */
export async function hold(name, { url, kill, ...flags } = {}) {
  if (kill) flags.kill = kill === true ? process.pid : kill;
  const words = ["hold", "--json"];
  for (const [flag, value] of Object.entries(flags)) {
    const word = "--" + flag.replace(/[A-Z]/g, (letter) => "-" + letter.toLowerCase());
    for (const one of typeof value === "object" && value?.[Symbol.iterator] ? value : [value]) {
      const text = Number.isFinite(one) && !Number.isInteger(one) ? one.toFixed(9) : one; // no exponent
      if (one !== undefined && one !== null && one !== false) words.push(one === true ? word : `${word}=${text}`);
    }
  }
  const program = process.env.LEASELOCK_BIN || "leaselock";
  // A file of URLs in the environment would count before a URL there.
  const env = !url ? process.env : { ...process.env, LEASELOCK_URL: url, LEASELOCK_URL_FILE: "" };
  // In a session of its own, or Ctrl-C would release the lock while this process still cleans up.
  let child;
  try {
    child = spawn(program, [...words, "--", name], { env, detached: true });
  } catch (error) {
    throw notStarted(program, error);
  }
  return new Promise((granted, refused) => new Lease(name, program, child, granted, refused));
}

/** A lock that is held, until `release()`. It does not keep the process alive. */
class Lease {
  #child;
  #abort = new AbortController();
  #deadlineMs = 0;
  #errorMs = 0;
  #grant;
  #timer;
  #exit;
  #released;

  constructor(name, program, child, granted, refused) {
    this.name = name;
    this.pid = child.pid;
    this.#child = child;
    let rest = "";
    let said = "";
    child.on("error", (error) => refused(notStarted(program, error)));
    if (!child.stdin) return; // no descriptor is left for its pipes, of which the error tells
    child.stdin.on("error", () => {}); // it has ended, which "close" tells
    child.stderr.setEncoding("utf8").on("data", (text) => (said += text));
    child.stdout.setEncoding("utf8").on("data", (text) => {
      const lines = (rest + text).split("\n");
      rest = lines.pop();
      for (const line of lines) {
        const event = parsed(line);
        if (event?.event) {
          this.#take(event, granted);
        } else {
          const wrong = `not \`leaselock hold\`: ${program} printed ${JSON.stringify(line.slice(0, 80))}`;
          refused(new LeaselockError(wrong)); // in vain after a grant
          this.#lose(wrong);
          for (const pipe of child.stdio) pipe.destroy();
          child.kill();
        }
      }
    });
    child.stdout.on("end", () => this.#lose(`lost \`${name}\`: the process that held it has ended`));
    this.#exit = new Promise((ended) => {
      child.on("close", (code, signal) => {
        ended(code ?? signal);
        refused(failure(said.trim(), code ?? signal)); // in vain after a grant
      });
    });
  }

  /** The fencing token: hand it to what the lock protects. With lead: true it is the term. */
  get fence() {
    return this.#grant.fence;
  }

  /** Name, fencing token and owner in one word, for a fence checker. */
  get sequencer() {
    return this.#grant.sequencer;
  }

  /** Aborted when the lease is lost, with the Lost as its reason. */
  get signal() {
    return this.#abort.signal;
  }

  /** Milliseconds until the lease ends, if no renewal comes; 0 when it has ended. */
  remainingMs() {
    const now = uptime() * 1000 + this.#errorMs;
    return this.signal.aborted ? 0 : Math.max(0, this.#deadlineMs - now);
  }

  /** Throws Lost when the lease is over, also when the child is frozen or dead. Asks nobody else. */
  check() {
    if (this.remainingMs() === 0) this.#lose(`lost \`${this.name}\`: no renewal came before its deadline`);
    this.signal.throwIfAborted();
  }

  /** Releases the lock, once. True if that is confirmed; rejects with Lost if the lease was lost before. */
  release() {
    this.#released ??= this.#end();
    return this.#released;
  }

  async #end() {
    const isLost = this.remainingMs() === 0;
    if (isLost) this.#lose(`lost \`${this.name}\`: no renewal came before its deadline`);
    const links = [this.#child, this.#child.stdout, this.#child.stdin];
    for (const one of links) one.ref();
    this.#child.stdin.end("release\n");
    let late;
    const code = await Promise.race([this.#exit, new Promise((ended) => (late = setTimeout(ended, RELEASE_MS)))]);
    for (const one of links) one.unref(); // a frozen child does not keep the process alive
    clearTimeout(late);
    clearTimeout(this.#timer);
    if (isLost) this.check();
    if (code === 79) throw this.signal.reason ?? new Lost(`lost \`${this.name}\``, 79);
    return code === 0;
  }

  [Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose")]() {
    return this.release();
  }

  #take(event, granted) {
    if (event.deadline_boot_ms !== undefined) this.#renew(event);
    if (event.event === "acquired") {
      this.#grant = event;
      for (const one of [this.#child, this.#child.stdout, this.#child.stderr, this.#child.stdin]) one.unref();
      granted(this);
    } else if (event.event === "broken" && this.signal.aborted) {
      const lost = this.signal.reason;
      Object.assign(lost, { by: event.by, why: event.why, message: `${lost.message}; ${event.text}` });
    } else if (event.event === "released") {
      this.#abort.abort(new Lost(`\`${this.name}\` was released`));
    } else if (["lost", "unguarded", "not-released"].includes(event.event)) {
      this.#lose(event.text, event.reason);
    }
  }

  // The child says the deadline by the clock since boot, and from its own now on. The difference is what os.uptime()
  // lacks, but for the time that the line took: so the largest counts, and no less than a step.
  #renew(event) {
    this.#deadlineMs = event.deadline_boot_ms;
    const measured = event.deadline_boot_ms - event.deadline_in_ms - uptime() * 1000;
    this.#errorMs = Math.max(this.#errorMs, measured, STEP_MS);
    this.#watch();
  }

  #watch() {
    clearTimeout(this.#timer);
    const late = () => {
      if (this.remainingMs() === 0) this.#lose(`lost \`${this.name}\`: no renewal came before its deadline`);
      else this.#watch();
    };
    // Behind the messages that came while this process did something else.
    const pauseMs = Math.min(this.remainingMs(), LONGEST_TIMER_MS);
    this.#timer = setTimeout(() => setTimeout(late, GRACE_MS).unref(), pauseMs);
    this.#timer.unref();
  }

  #lose(text, reason) {
    const lost = new Lost(text, 79);
    lost.reason = reason;
    clearTimeout(this.#timer);
    this.#abort.abort(lost);
  }
}

function notStarted(program, error) {
  const isMissing = NO_PROGRAM.includes(error.code);
  const right = isMissing ? "; put leaselock on PATH or its path into LEASELOCK_BIN" : "";
  return new (isMissing ? Missing : LeaselockError)(`cannot start ${program}: ${error.message}${right}`);
}

// What it says itself counts before its exit code, because that of busy can be chosen.
function failure(text, code) {
  const said = { exit: code };
  for (const line of text.split("\n")) {
    if (line.startsWith("{")) Object.assign(said, parsed(line));
  }
  const Kind = said.kind === "busy" ? Busy : ({ 75: Busy, 79: Lost }[said.exit] ?? LeaselockError);
  return new Kind(said.error || text || `leaselock ended with ${said.exit}`, said.exit);
}

function parsed(line) {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
