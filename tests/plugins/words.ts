// Counts the words of a project's file, in AssemblyScript: {"path": "a.txt"} -> {"path": "a.txt", "words": 2}.
//
//   asc words.ts --outFile words.wasm --runtime stub --use abort=words/gaveUp -O3

@external("extism:host/env", "alloc") declare function alloc(length: u64): u64;
@external("extism:host/env", "length") declare function length(block: u64): u64;
@external("extism:host/env", "load_u8") declare function loadU8(at: u64): u8;
@external("extism:host/env", "store_u8") declare function storeU8(at: u64, value: u8): void;
@external("extism:host/env", "input_offset") declare function inputOffset(): u64;
@external("extism:host/env", "output_set") declare function outputSet(at: u64, length: u64): void;
@external("extism:host/env", "error_set") declare function errorSet(block: u64): void;
@external("extism:host/user", "read_file") declare function readFile(path: u64, options: u64): u64;

function textOf(block: u64): string {
  const bytes = new Uint8Array(i32(length(block)));
  for (let at = 0; at < bytes.length; at++) bytes[at] = loadU8(block + at);
  return String.UTF8.decode(bytes.buffer);
}

function blockOf(text: string): u64 {
  const bytes = Uint8Array.wrap(String.UTF8.encode(text));
  const block = alloc(bytes.length);
  for (let at = 0; at < bytes.length; at++) storeU8(block + at, bytes[at]);
  return block;
}

/** The JSON string that is the value of `path`, quotes and escapes as they are; empty where there is none. */
function pathIn(input: string): string {
  const key = input.indexOf('"path":"');
  if (key < 0) return "";
  const start = key + 7;
  let end = start + 1;
  while (end < input.length && input.charAt(end) != '"') end += input.charAt(end) == "\\" ? 2 : 1;
  return input.substring(start, end + 1);
}

/** Words of a JSON string's inside: what stands between blanks, whether they are written out or escaped. */
function wordsIn(text: string): i32 {
  let words = 0;
  let within = false;
  for (let at = 0; at < text.length; at++) {
    let isBlank = text.charAt(at) == " ";
    if (text.charAt(at) == "\\") {
      at++;
      isBlank = "nrt".includes(text.charAt(at));
    }
    if (!isBlank && !within) words++;
    within = !isBlank;
  }
  return words;
}

export function run(): i32 {
  const path = pathIn(textOf(inputOffset()));
  if (path == "") {
    errorSet(blockOf("the input needs a `path`"));
    return 1;
  }
  const answer = readFile(blockOf(path), 0);
  const text = textOf(answer);
  if (!text.startsWith('{"ok":')) {
    errorSet(answer);
    return 1;
  }
  const output = blockOf(`{"path":${path},"words":${wordsIn(text.substring(7, text.length - 2))}}`);
  outputSet(output, length(output));
  return 0;
}

export function gaveUp(message: string | null, file: string | null, line: u32, column: u32): void {
  unreachable();
}
