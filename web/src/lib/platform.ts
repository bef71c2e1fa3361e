import i18n from './i18n';
import { pick } from './i18n';
import type { Adapter } from './types';

export function helpLink(links: Record<string, string> | undefined): string | null {
  if (!links) return null;
  const lang = i18n.language.split('-')[0] ?? 'en';
  return links[lang] || links.en || null;
}

function escapeAttribute(text: string): string {
  return text.replace(/&/g, '&amp;').replace(/"/g, '&quot;').replace(/</g, '&lt;').replace(/>/g, '&gt;');
}

export function embedCode(origin: string, bot: string, title: string): string {
  return `<script data-title="${escapeAttribute(title || 'Parley')}" src="${origin}/api/v1/embed/${bot}/widget.js"></script>`;
}

export interface AdapterGroup {
  category: string;
  adapters: Adapter[];
}

/** Adapters by category in the order of the reader's region. One may stand in several groups; the rest come last. */
export function groupAdapters(adapters: Adapter[], lang: string): AdapterGroup[] {
  const order = lang === 'zh-Hans' ? ['popular', 'china', 'global', 'protocol'] : ['popular', 'global', 'china', 'protocol'];
  const groups = order.map((category) => ({
    category,
    adapters: adapters.filter((adapter) => adapter.spec.categories?.includes(category)),
  }));
  const rest = adapters.filter((adapter) => !adapter.spec.categories?.some((category) => order.includes(category)));
  return [...groups, { category: '', adapters: rest }].filter((group) => group.adapters.length > 0);
}

export function adapterLabel(adapters: Adapter[] | undefined, name: string): string {
  const adapter = adapters?.find((item) => item.name === name);
  return adapter ? pick(adapter.label) || name : name;
}
