// Finds `metier` and prepared packages for ES modules, after every node_modules.
import {sep} from 'node:path';
import {fileURLToPath, pathToFileURL} from 'node:url';

const packages = process.env.METIER_NODE_PACKAGES;
const packagesURL = packages && pathToFileURL(packages + '/script.mjs').href;
let folders = {};

export function initialize(data) {
  folders = data ?? {};
}

export async function resolve(specifier, context, nextResolve) {
  const isPackage = !/^[./]|^[a-z]+:/i.test(specifier);
  try {
    const found = await nextResolve(specifier, context);
    if (isPackage && isForeign(context.parentURL, found.url)) {
      const message = `Cannot find package '${specifier}' imported from ${fileURLToPath(context.parentURL)}`;
      throw Object.assign(new Error(message), {code: 'ERR_MODULE_NOT_FOUND'});
    }
    return found;
  } catch (error) {
    if (specifier === 'metier') {
      return {url: new URL('./metier/index.mjs', import.meta.url).href, shortCircuit: true};
    }
    if (!packagesURL || !isPackage) throw error;
    try {
      return await nextResolve(specifier, {...context, parentURL: packagesURL});
    } catch {
      throw error;
    }
  }
}

// Whether a module of the skill would be given a file of the project around it.
function isForeign(parentURL, url) {
  const {skill, project} = folders;
  if (!skill || !parentURL?.startsWith('file:') || !url.startsWith('file:')) return false;
  const file = fileURLToPath(url);
  return isBelow(skill, fileURLToPath(parentURL)) && isBelow(project, file) && !isBelow(skill, file);
}

function isBelow(folder, file) {
  return file === folder || file.startsWith(folder + sep);
}
