// Finds `metier` for ES modules, after every node_modules.
export async function resolve(specifier, context, nextResolve) {
  try {
    return await nextResolve(specifier, context);
  } catch (error) {
    if (specifier !== 'metier') throw error;
    return {url: new URL('./metier/index.mjs', import.meta.url).href, shortCircuit: true};
  }
}
