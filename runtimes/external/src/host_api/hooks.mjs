// The hooks of versions of Node that run them in a thread of their own.
import search from './package_search.cjs';

export const resolve = search.resolve;
