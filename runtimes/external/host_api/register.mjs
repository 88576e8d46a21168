// Finds `metier` and prepared packages for ES modules. With the query `?skill=FOLDER&project=FOLDER`, the modules of the skill find no
// package in the project around it.
import Module from 'node:module';
import path from 'node:path';

const query = new URL(import.meta.url).searchParams;
const [skill, project] = [query.get('skill'), query.get('project')];
Module.register?.('./hooks.mjs', import.meta.url, {data: {skill, project}});
if (skill) useOwnPackages();

function useOwnPackages() {
  const {_nodeModulePaths: lookupPaths, _resolveFilename: resolveFilename} = Module;
  const isForeign = (file) => isBelow(project, file) && !isBelow(skill, file);

  Module._nodeModulePaths = (from) => {
    const folders = lookupPaths(from);
    return isBelow(skill, from) ? folders.filter((folder) => !isForeign(folder)) : folders;
  };
  Module._resolveFilename = function (request, parent, isMain, options) {
    const file = resolveFilename.call(this, request, parent, isMain, options);
    if (/^\.{0,2}(\/|$)/.test(request) || !parent?.filename || !isBelow(skill, parent.filename) || !isForeign(file)) return file;
    // A package.json of the project can name itself, or map names to files.
    const own = Module._findPath(request, Module._resolveLookupPaths(request, parent), isMain);
    if (own && !isForeign(own)) return own;
    throw Object.assign(new Error(`Cannot find module '${request}'`), {code: 'MODULE_NOT_FOUND'});
  };
}

function isBelow(folder, file) {
  return file === folder || file.startsWith(folder + path.sep);
}
