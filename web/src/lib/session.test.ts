import { describe, expect, it } from 'vitest';
import { mergeMessage } from './chat-socket';
import { matchLanguage, pick } from './i18n';
import { visibleStages, initialConfig, submitConfig } from './pipeline-config';
import { embedCode, groupAdapters } from './platform';
import { chooseWorkspace } from './session';
import type { Adapter, ChatMessage, ConfigDoc, WorkspaceEntry } from './types';
import { parseTime, safeReturnTo, stable } from './utils';

const entry = (uuid: string) => ({ workspace: { uuid } }) as WorkspaceEntry;

describe('choice of a workspace', () => {
  it('follows the table of the contract', () => {
    const two = [entry('a'), entry('b')];
    expect(chooseWorkspace([], null, null).kind).toBe('unavailable');
    expect(chooseWorkspace(two, 'b', null)).toMatchObject({ kind: 'selected', entry: { workspace: { uuid: 'b' } } });
    expect(chooseWorkspace(two, 'gone', 'a').kind).toBe('selection-required');
    expect(chooseWorkspace([entry('a')], null, null).kind).toBe('selected');
    expect(chooseWorkspace(two, null, 'b')).toMatchObject({ kind: 'selected', entry: { workspace: { uuid: 'b' } } });
    expect(chooseWorkspace(two, null, 'b', true).kind).toBe('selection-required');
    expect(chooseWorkspace(two, null, 'stale').kind).toBe('selection-required');
  });
});

describe('return paths', () => {
  it('stay inside the panel', () => {
    expect(safeReturnTo('/home/bots?id=1')).toBe('/home/bots?id=1');
    expect(safeReturnTo('/wizard')).toBe('/wizard');
    for (const bad of [null, '', '//evil.example', 'https://evil.example', '/login', '/\\evil.example']) expect(safeReturnTo(bad)).toBeNull();
  });
});

describe('languages', () => {
  it('match what browsers send', () => {
    expect(matchLanguage('zh-CN')).toBe('zh-Hans');
    expect(matchLanguage('zh-TW')).toBe('zh-Hant');
    expect(matchLanguage('ja')).toBe('ja-JP');
    expect(matchLanguage('pt-BR')).toBeNull();
  });
  it('fall back in order for texts of the server', () => {
    expect(pick({ zh_Hans: '中', en_US: 'en' }, 'zh-Hans')).toBe('中');
    expect(pick({ zh_Hans: '中', en_US: 'en' }, 'ru-RU')).toBe('en');
    expect(pick({ ja_JP: '日' }, 'ru-RU')).toBe('日');
    expect(pick(undefined)).toBe('');
  });
});

describe('chat', () => {
  it('replaces a message that grows and keeps the order', () => {
    const m = (id: number, content: string, role: 'user' | 'assistant' = 'assistant') => ({ id, role, content }) as ChatMessage;
    const list = [m(1, 'hi', 'user'), m(2, 'a')].reduce(mergeMessage, [] as ChatMessage[]);
    expect(mergeMessage(list, m(2, 'ab')).map((x) => x.content)).toEqual(['hi', 'ab']);
    expect(mergeMessage(list, m(3, 'c')).map((x) => x.id)).toEqual([1, 2, 3]);
  });
});

describe('pipeline configuration', () => {
  const docs = [
    { name: 'ai', stages: [
      { name: 'runner', config: [{ name: 'runner', type: 'select', default: 'one', options: [{ name: 'one' }, { name: 'two' }, { name: 'local-agent' }] }] },
      { name: 'one', config: [{ name: 'x', type: 'string', default: 'd' }] },
      { name: 'two', config: [] },
    ] },
  ] as ConfigDoc[];
  it('shows the stage of the chosen runner', () => {
    const config = initialConfig(docs, {});
    const stages = visibleStages(docs[0]!, config);
    expect(stages.map((s) => s.name)).toEqual(['runner', 'one']);
    expect(stages[0]?.config[0]?.options?.map((o) => o.name)).toEqual(['one', 'local-agent']);
  });
  it('keeps what no form knows and does not change by being looked at', () => {
    const stored = { ai: { one: { x: ' a ', secret: 1 }, custom: { y: 2 } }, other: { z: { q: 1 } } };
    const config = initialConfig(docs, stored);
    expect(stable(initialConfig(docs, config))).toBe(stable(config));
    expect(submitConfig(docs, config)).toMatchObject({ ai: { one: { x: 'a', secret: 1 }, custom: { y: 2 } }, other: { z: { q: 1 } } });
  });
});

describe('platforms', () => {
  it('are grouped by region, strangers last', () => {
    const a = (name: string, categories?: string[]) => ({ name, spec: { categories, config: [] } }) as unknown as Adapter;
    const list = [a('x'), a('w', ['global', 'popular']), a('c', ['china'])];
    expect(groupAdapters(list, 'zh-Hans').map((g) => g.category)).toEqual(['popular', 'china', 'global', '']);
    expect(groupAdapters(list, 'en-US').map((g) => g.category)).toEqual(['popular', 'global', 'china', '']);
  });
  it('get an embed code that a title cannot break out of', () => {
    expect(embedCode('http://h', 'u', '"><script>')).toBe('<script data-title="&quot;&gt;&lt;script&gt;" src="http://h/api/v1/embed/u/widget.js"></script>');
  });
});

describe('times', () => {
  it('without a zone are UTC', () => {
    expect(parseTime('2026-01-01T00:00:00')?.toISOString()).toBe('2026-01-01T00:00:00.000Z');
    expect(parseTime('2026-01-01T02:00:00+02:00')?.toISOString()).toBe('2026-01-01T00:00:00.000Z');
    expect(parseTime(0)?.toISOString()).toBe('1970-01-01T00:00:00.000Z');
    expect(parseTime('nonsense')).toBeNull();
  });
});
