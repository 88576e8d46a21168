// skills/web-search/handler.ts
import type { SkillHandler, SkillContext, SkillResult } from '../../src/skills/types.js';
export class WebSearchHandler implements SkillHandler {
async execute(ctx: SkillContext): Promise<SkillResult> {
const { query, count = 10 } = ctx.input as { query: string; count?: number };
// ctx.secret() is synchronous — no await needed
const apiKey = ctx.secret('brave_api_key');
try {
const response = await fetch(
`https://api.search.brave.com/res/v1/web/search?q=${encodeURIComponent(query)}&count=${count}`,
{ headers: { 'Accept': 'application/json', 'X-Subscription-Token': apiKey } },
);
if (!response.ok) {
return { success: false, error: `Brave Search API error: ${response.status} ${response.statusText}` };
}
const json = await response.json() as { web?: { results?: unknown[] }; query?: { total_count?: number } };
const results = json.web?.results ?? [];
return { success: true, data: { results, total: json.query?.total_count ?? results.length } };
} catch (err) {
const message = err instanceof Error ? err.message : String(err);
// Include query in the log so failures are traceable without reading the full task
ctx.log.error({ err, query }, 'web-search failed');
return { success: false, error: `web-search failed: ${message}` };
}
}
}
