// The host API of metier for ES modules in Node 18.19 and later: `import {ctx, input} from 'metier'`.
import {createRequire} from 'node:module';

const metier = createRequire(import.meta.url)('./index.js');

export const {ctx, MetierError, serve} = metier;

export const input = given();

export default metier;

// Where there is no host, whoever calls it hears of that.
function given() {
  try {
    return metier.input;
  } catch (error) {
    if (error.kind === 'unavailable') return undefined;
    throw error;
  }
}
