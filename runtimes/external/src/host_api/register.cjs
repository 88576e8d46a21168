// Preloaded by NODE_OPTIONS, and so in every process and thread of Node that a script starts: they find packages as package_search.cjs says.
'use strict';
const fs = require('fs');
const Module = require('module');
const path = require('path');
const {pathToFileURL} = require('url');
const {isForeign, isOwn, isPackage, resolve, skill} = require('./package_search.cjs');

if (Module.registerHooks) Module.registerHooks({resolve});
else if (Module.register) Module.register('./hooks.mjs', pathToFileURL(__filename));
else if (skill) refuseModules();
if (skill) requireOwnPackages();

function requireOwnPackages() {
  const {_resolveLookupPaths: lookupPaths, _resolveFilename: resolveFilename} = Module;
  const isOwnRequest = (request, parent) =>
    isPackage(request) &&
    (!parent || ['<repl>', 'internal/preload'].includes(parent.id) || (Boolean(parent.filename) && isOwn(parent.filename)));

  Module._resolveLookupPaths = function (request, parent) {
    const folders = lookupPaths.apply(this, arguments);
    return folders && isOwnRequest(request, parent) ? folders.filter((folder) => !isForeign(folder)) : folders;
  };
  Module._resolveFilename = function (request, parent, isMain) {
    const file = resolveFilename.apply(this, arguments);
    if (!isOwnRequest(request, parent) || !isForeign(file)) return file;
    // A package.json of the project can name itself, or map names to files.
    const own = Module._findPath(request, Module._resolveLookupPaths(request, parent), isMain);
    if (own && !isForeign(own)) return own;
    throw Object.assign(new Error(`Cannot find module '${request}'`), {code: 'MODULE_NOT_FOUND'});
  };
}

// Before Node 18.19, nothing decides where an ES module finds packages, and a thread does not know its file: of the skill, only CommonJS runs.
function refuseModules() {
  const refusal = () =>
    new Error(
      `Node ${process.versions.node} runs no ES module and no thread of a skill whose project is not trusted as a whole: ` +
        'install Node 18.19, 20.6 or later',
    );
  const [main, text] = [process.argv[1], process._eval];
  const isModuleText = typeof text !== 'string' || hasImport(text) || process.execArgv.some((arg) => arg.startsWith('--input-type'));
  const hasFile = Boolean(main) && fs.existsSync(main);
  if (hasFile ? isOwn(fs.realpathSync(main)) && isModule(main) : isModuleText) throw refusal();

  const {_compile: compile} = Module.prototype;
  Module.prototype._compile = function (source, file) {
    if (isOwn(file) && hasImport(source)) throw refusal();
    return compile.apply(this, arguments);
  };
}

function hasImport(source) {
  return /\bimport\s*(\(|\/[/*])/.test(source);
}

function isModule(file) {
  if (/\.[cm]js$/.test(file)) return file.endsWith('.mjs');
  for (let folder = path.dirname(file); ; folder = path.dirname(folder)) {
    const manifest = path.join(folder, 'package.json');
    if (fs.existsSync(manifest)) return JSON.parse(fs.readFileSync(manifest, 'utf8')).type === 'module';
    if (folder === path.dirname(folder)) return false;
  }
}
