#!/usr/bin/env node
// Lists the paths of the project that match a pattern.

async function main() {
  // Nobody has to install this module, and `import()` works in CommonJS and in ES modules.
  // `ctx` has the functions of the host; `metier api` lists them.
  const {ctx, input} = await import('metier');
  const pattern = input?.pattern ?? '*';
  const files = ctx.glob(pattern);

  // What the script prints is its result.
  console.log(JSON.stringify({pattern, count: files.length, files}));
}

main();
