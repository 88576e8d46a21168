// Where the modules of a script find `metier` and prepared packages, and what they do not find. METIER_NODE_BOUNDARY is JSON, {skill, projects}:
// the modules of that folder, and code without a file, take no package from these projects.
'use strict';
const path = require('path');
const {fileURLToPath, pathToFileURL} = require('url');

const {METIER_NODE_BOUNDARY: boundary, METIER_NODE_PACKAGES: packages} = process.env;
const {skill, projects} = boundary ? JSON.parse(boundary) : {projects: []};
const client = pathToFileURL(path.join(__dirname, 'metier/index.mjs')).href;

// A name, and neither a path nor an address.
function isPackage(request) {
  return !/^\.{0,2}(\/|$)|^[a-z]+:/i.test(request);
}

// Whether it is a file of the skill, or stands for code without a file: of an argument, of standard input, or of the command line, which
// counts as a file without a name in the working directory.
function isOwn(file) {
  return Boolean(skill) && (isBelow(skill, file) || /[/\\](\[(worker )?eval\d*\]|\[stdin\])?$/.test(file));
}

function isForeign(file) {
  return projects.some((project) => isBelow(project, file)) && !isBelow(skill, file);
}

function isBelow(folder, file) {
  return file === folder || file.startsWith(folder + path.sep);
}

// Resolves what an ES module imports, in one place after the other. Where hooks have a thread of their own, `next` returns a promise.
function resolve(specifier, context, next) {
  if (!isPackage(specifier) || (context.conditions || []).includes('require')) return next(specifier, context);
  const {parentURL} = context;
  const importer = parentURL && parentURL.startsWith('file:') ? fileURLToPath(parentURL) : '';
  const isOwnImport = isOwn(importer);
  // A package of the project hides those above it.
  const around = projects.filter((project) => isOwnImport && isBelow(project, importer)).map(path.dirname);
  const others = [...around, ...(packages ? packages.split(path.delimiter) : [])];
  return attempt([parentURL, ...others.map((folder) => pathToFileURL(path.join(folder, 'script.mjs')).href)]);

  function attempt([first, ...later], failure) {
    const accept = (found) => {
      const isRefused = isOwnImport && found.url.startsWith('file:') && isForeign(fileURLToPath(found.url));
      if (!isRefused) return found;
      const error = new Error(`Cannot find package '${specifier}' imported from ${importer}`);
      throw Object.assign(error, {code: 'ERR_MODULE_NOT_FOUND'});
    };
    const retry = (error) => {
      if (later.length > 0) return attempt(later, failure || error);
      if (specifier === 'metier') return {url: client, shortCircuit: true};
      throw failure || error;
    };
    try {
      const found = next(specifier, {...context, parentURL: first});
      return found instanceof Promise ? found.then(accept).catch(retry) : accept(found);
    } catch (error) {
      return retry(error);
    }
  }
}

module.exports = {isForeign, isOwn, isPackage, resolve, skill};
