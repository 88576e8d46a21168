// Loads the modules of a handler: TypeScript without its types where Node can do that, and `.js` files with `import` or `export` as
// ES modules although no package.json says so.
import fs from 'node:fs';
import * as nodeModule from 'node:module';
import path from 'node:path';
import {fileURLToPath} from 'node:url';

const IS_TYPESCRIPT = /\.[cm]?ts$/;
const HAS_MODULE_SYNTAX = /^\s*(?:export\s|import\s*[\w{*'"])/m;

export async function resolve(specifier, context, nextResolve) {
  try {
    return await nextResolve(specifier, context);
  } catch (error) {
    // TypeScript names the file that the compiler would write.
    if (!/^\.{1,2}\/.*\.js$/.test(specifier)) throw error;
    return await nextResolve(specifier.replace(/\.js$/, '.ts'), context).catch(() => {
      throw error;
    });
  }
}

export async function load(url, context, nextLoad) {
  if (!url.startsWith('file:')) return nextLoad(url, context);
  const file = fileURLToPath(url);
  if (IS_TYPESCRIPT.test(file)) return loadTypeScript(file, url, context, nextLoad);
  if (file.endsWith('.js') && context.format === 'commonjs') {
    const source = fs.readFileSync(file, 'utf8');
    if (HAS_MODULE_SYNTAX.test(source)) return {format: 'module', source, shortCircuit: true};
  }
  return nextLoad(url, context);
}

async function loadTypeScript(file, url, context, nextLoad) {
  const {stripTypeScriptTypes} = nodeModule;
  if (!process.features.typescript && !stripTypeScriptTypes) {
    throw new Error(
      `${path.basename(file)} is TypeScript, which Node ${process.versions.node} cannot run: install Node 22.18 or later, ` +
        'or compile it to JavaScript',
    );
  }
  try {
    if (process.features.typescript) return await nextLoad(url, context);
    return stripped('strip');
  } catch (error) {
    // Enums and the like have no JavaScript beneath their types.
    if (error.code !== 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX' || !stripTypeScriptTypes) throw error;
    return stripped('transform');
  }

  function stripped(mode) {
    const source = stripTypeScriptTypes(fs.readFileSync(file, 'utf8'), {mode});
    return {format: 'module', source, shortCircuit: true};
  }
}
