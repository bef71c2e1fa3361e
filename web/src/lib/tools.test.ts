import { describe, expect, it } from 'vitest';
import { allow, asEntry, isAllowed, mergeActivity, unknownNames } from './tools';
import type { ToolActivity, ToolRow, Values } from './types';

const tool = (name: string, call_name?: string): ToolRow => ({ name, call_name, description: '', human_desc: '', parameters: {}, source: 'builtin', source_name: 'LangBot' });
const call = (part: Partial<ToolActivity>): ToolActivity => ({ id: 'c1', turn_id: 't', name: 'exec', arguments: '{}', status: 'running', ...part });

describe('policy of tools', () => {
  it('follows the rule of the server', () => {
    expect(isAllowed({}, tool('a'))).toBe(true);
    expect(isAllowed({ 'denied-tools': ['a'] }, tool('a'))).toBe(false);
    expect(isAllowed({ 'denied-tools': ['a'] }, tool('a', 'x__a'))).toBe(false);
    expect(isAllowed({ 'enable-all-tools': false, tools: ['a'] }, tool('a'))).toBe(true);
    expect(isAllowed({ 'enable-all-tools': false, tools: ['a'] }, tool('a', 'x__a'))).toBe(false);
    expect(isAllowed({ 'enable-all-tools': false, tools: ['a'], 'denied-tools': ['a'] }, tool('a'))).toBe(false);
  });

  it('is changed for one tool', () => {
    const change = (values: Values, on: boolean) => ({ ...values, ...allow(values, tool('a'), on) });
    expect(change({}, false)).toEqual({ 'denied-tools': ['a'] });
    expect(change({ 'denied-tools': ['b', 'a'] }, true)).toEqual({ 'denied-tools': ['b'] });
    const some = { 'enable-all-tools': false, tools: ['b'] };
    expect(change(some, true)).toEqual({ ...some, tools: ['b', 'a'] });
    expect(change({ ...some, tools: ['a'] }, false)).toEqual({ ...some, tools: [] });
    expect(isAllowed(change({ ...some, 'denied-tools': ['a'] }, true), tool('a'))).toBe(true);
  });

  it('tells of names that nobody has', () => {
    expect(unknownNames({ 'enable-all-tools': false, tools: ['a', 'gone'] }, [tool('a')])).toEqual(['gone']);
    expect(unknownNames({ tools: ['gone'], 'denied-tools': ['x__a', 'lost'] }, [tool('a', 'x__a')])).toEqual(['lost']);
  });
});

describe('activity', () => {
  it('puts the end in the place of the beginning, also when ids repeat', () => {
    let list = mergeActivity([], call({}));
    list = mergeActivity(list, call({ status: 'success', result: 'one' }));
    list = mergeActivity(list, call({}));
    expect(list.map((c) => c.status)).toEqual(['success', 'running']);
    list = mergeActivity(list, call({ status: 'error', result: 'err: two' }));
    expect(list.map((c) => c.result)).toEqual(['one', 'err: two']);
  });

  it('is shown like a record', () => {
    expect(asEntry(call({ status: 'error', result: 'err: gone', duration_ms: 5 }), 0)).toMatchObject({ tool_name: 'exec', duration: 5, result: null, error_message: 'gone' });
    expect(asEntry(call({ status: 'success', result: '{}' }), 1)).toMatchObject({ result: '{}', error_message: null });
  });
});
