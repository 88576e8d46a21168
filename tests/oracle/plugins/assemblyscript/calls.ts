// Does what its input says, call by call, as ../rust/src/lib.rs, with Extism's kit for AssemblyScript.
//
//   npm ci && npx asc calls.ts --outFile ../assemblyscript.wasm --use abort=calls/gaveUp -O3

import { Config, Host, LogLevel, Memory, Var } from "@extism/as-pdk";
import { error_set, http_request, length } from "@extism/as-pdk/lib/env";

@external("extism:host/env", "http_status_code") declare function httpStatusCode(): i32;

export function run(): i32 {
  const input = Host.input();
  const script = String.UTF8.decode(input.buffer).replaceAll('"', "");
  const lines = script.split(";");
  const answers: string[] = [];
  for (let at = 0; at < lines.length; at++) {
    const words = lines[at].split(" ");
    const name = words[0];
    const first = words.length > 1 ? words[1] : "";
    const second = words.length > 2 ? words[2] : "";
    if (name == "input") answers.push(shown(input));
    else if (name == "var_get") answers.push(optional(Var.get(first)));
    else if (name == "var_set") Var.set(first, value(second));
    else if (name == "var_remove") Var.remove(first);
    else if (name == "config") {
      const found = Config.get(first);
      answers.push(found === null ? "none" : shown(Uint8Array.wrap(String.UTF8.encode(found))));
    } else if (name == "log") Host.log(levelOf(first), second);
    else if (name == "http") {
      const body = words.length > 3 ? Memory.allocateBytes(value(words[3])).offset : 0;
      const request = `{"url":"${second}","method":"${first}","headers":{"x-from":"plug-in"}}`;
      const block = http_request(Memory.allocateString(request).offset, body);
      answers.push(httpStatusCode().toString());
      answers.push(shown(new Memory(block, length(block)).toUint8Array()));
    } else if (name == "error") error_set(Memory.allocateBytes(value(first)).offset);
    else if (name == "fail") {
      error_set(Memory.allocateBytes(value(first)).offset);
      return 1;
    } else if (name == "code") return I32.parseInt(first);
    else if (name == "output") {
      Host.output(value(first));
      return 0;
    } else {
      error_set(Memory.allocateString("no call is named " + name).offset);
      return 2;
    }
  }
  for (let at = 0; at < answers.length; at++) answers[at] = '"' + answers[at] + '"';
  Host.outputString("[" + answers.join(",") + "]");
  return 0;
}

function levelOf(name: string): LogLevel {
  if (name == "debug") return LogLevel.Debug;
  if (name == "info") return LogLevel.Info;
  return name == "warn" ? LogLevel.Warn : LogLevel.Error;
}

function value(word: string): Uint8Array {
  if (word.startsWith("@")) return new Uint8Array(I32.parseInt(word.substring(1))).fill(0x78);
  if (!word.startsWith("#")) return Uint8Array.wrap(String.UTF8.encode(word));
  const bytes = new Uint8Array((word.length - 1) / 2);
  for (let at = 0; at < bytes.length; at++) bytes[at] = u8(U32.parseInt(word.substr(1 + 2 * at, 2), 16));
  return bytes;
}

function optional(bytes: Uint8Array | null): string {
  return bytes === null ? "none" : shown(bytes);
}

/** The length, a sum (FNV-1a), and the first bytes. */
function shown(bytes: Uint8Array): string {
  let sum: u32 = 0x811c9dc5;
  for (let at = 0; at < bytes.length; at++) sum = (sum ^ bytes[at]) * 0x01000193;
  let head = "";
  for (let at = 0; at < bytes.length && at < 16; at++) head += hex(bytes[at], 2);
  return `${bytes.length} ${hex(sum, 8)} ${head}`;
}

function hex(number: u32, digits: i32): string {
  return number.toString(16).padStart(digits, "0");
}

export function gaveUp(message: string | null, file: string | null, line: u32, column: u32): void {
  unreachable();
}
