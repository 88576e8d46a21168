// Finds `metier` and prepared packages for ES modules, after every node_modules.
import {pathToFileURL} from 'node:url';

const packages = process.env.METIER_NODE_PACKAGES;
const parentURL = packages && pathToFileURL(packages + '/script.mjs').href;

export async function resolve(specifier, context, nextResolve) {
  try {
    return await nextResolve(specifier, context);
  } catch (error) {
    if (specifier === 'metier') {
      return {url: new URL('./metier/index.mjs', import.meta.url).href, shortCircuit: true};
    }
    if (!parentURL || /^[./]|^[a-z]+:/i.test(specifier)) throw error;
    try {
      return await nextResolve(specifier, {...context, parentURL});
    } catch {
      throw error;
    }
  }
}
