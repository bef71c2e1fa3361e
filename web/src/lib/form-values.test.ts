import { describe, expect, it } from 'vitest';
import { asFallback, asPrompt, evaluate, initialValues, isVisible, submitValues, validate } from './form-values';
import type { FieldSpec } from './types';
import { stable } from './utils';

const field = (part: Partial<FieldSpec> & { name: string; type: string }): FieldSpec => part;

describe('initial values', () => {
  it('fills in defaults, keeps unknown keys and is idempotent', () => {
    const fields = [
      field({ name: 'a', type: 'string', default: 'x' }),
      field({ name: 'n', type: 'integer', default: 3 }),
      field({ name: 'b', type: 'boolean', default: true }),
      field({ name: 'l', type: 'array[string]' }),
      field({ name: 'm', type: 'model-fallback-selector' }),
      field({ name: 'p', type: 'prompt-editor' }),
      field({ name: 'url', type: 'webhook-url', default: '' }),
      field({ name: 'tools', type: 'rich-tools-selector', default: [] }),
    ];
    const once = initialValues(fields, { other: 1, n: '7', m: 'legacy-uuid' });
    expect(once).toMatchObject({ other: 1, a: 'x', n: 7, b: true, l: [], tools: [] });
    expect(once.m).toEqual({ primary: 'legacy-uuid', fallbacks: [], reasoning: {} });
    expect(once.p).toEqual([{ role: 'system', content: '' }]);
    expect('url' in once).toBe(false);
    expect(stable(initialValues(fields, once))).toBe(stable(once));
  });

  it('does not touch the stored value of a field that is not offered', () => {
    const fields = [field({ name: 'kb', type: 'resources-selector', default: [] })];
    expect(submitValues(fields, initialValues(fields, { kb: ['one'] }))).toEqual({ kb: ['one'] });
  });
});

describe('submitted values', () => {
  it('trims single-line strings only', () => {
    const fields = [field({ name: 's', type: 'string' }), field({ name: 't', type: 'text' }), field({ name: 'l', type: 'array[string]' })];
    expect(submitValues(fields, { s: '  a ', t: ' a ', l: [' a '] })).toEqual({ s: 'a', t: ' a ', l: [' a '] });
  });

  it('keeps reasoning only for chosen models and real levels', () => {
    const fields = [field({ name: 'm', type: 'model-fallback-selector' })];
    const out = submitValues(fields, {
      m: { primary: 'p', fallbacks: ['f', ''], reasoning: { p: 'high', f: 'provider_default', gone: 'low', x: 'nonsense' } },
    });
    expect(out.m).toEqual({ primary: 'p', fallbacks: ['f'], reasoning: { p: 'high' } });
  });

  it('leaves display fields out', () => {
    const fields = [field({ name: 'code', type: 'embed-code' }), field({ name: '__system.outbound_ips', type: 'text' })];
    expect(submitValues(fields, { code: 'x', '__system.outbound_ips': 'y', k: 1 })).toEqual({ k: 1 });
  });
});

describe('conditions', () => {
  it('looks into the system context, the form, then the outer values', () => {
    expect(evaluate({ field: '__system.is_wizard', operator: 'neq', value: true }, {}, {}, { is_wizard: true })).toBe(false);
    expect(evaluate({ field: 'mode', operator: 'eq', value: 'a' }, { mode: 'a' }, { mode: 'b' }, {})).toBe(true);
    expect(evaluate({ field: 'mode', operator: 'in', value: ['b'] }, {}, { mode: 'b' }, {})).toBe(true);
    expect(evaluate({ field: 'kb', operator: 'neq', value: [] }, { kb: [] }, {}, {})).toBe(false);
  });

  it('shows the n8n credentials of the chosen kind only', () => {
    const basic = field({ name: 'basic-username', type: 'string' });
    expect(isVisible(basic, { 'auth-type': 'basic' }, {}, {})).toBe(true);
    expect(isVisible(basic, { 'auth-type': 'jwt' }, {}, {})).toBe(false);
  });

  it('hides addresses that are not known yet', () => {
    expect(isVisible(field({ name: 'w', type: 'webhook-url' }), {}, {}, {})).toBe(false);
    expect(isVisible(field({ name: 'w', type: 'webhook-url' }), {}, {}, { webhook_url: 'http://x' })).toBe(true);
    expect(isVisible(field({ name: 'e', type: 'embed-code' }), {}, {}, { bot_uuid: 'u' })).toBe(true);
  });
});

describe('validation', () => {
  it('wants required texts, lists and a primary model, but only where they are visible', () => {
    const fields = [
      field({ name: 's', type: 'string', required: true }),
      field({ name: 'l', type: 'array[string]', required: true }),
      field({ name: 'm', type: 'model-fallback-selector', required: true }),
      field({ name: 'h', type: 'string', required: true, show_if: { field: 's', operator: 'eq', value: 'never' } }),
    ];
    expect(validate(fields, { s: ' ', l: [], m: { primary: '' } }, {}, {})).toEqual({ s: 'required', l: 'required', m: 'required' });
    expect(validate(fields, { s: 'a', l: ['b'], m: { primary: 'p' } }, {}, {})).toEqual({});
  });

  it('tells numbers from what only looks like one', () => {
    const fields = [field({ name: 'i', type: 'integer' }), field({ name: 'f', type: 'float' }), field({ name: 'j', type: 'json' })];
    expect(validate(fields, { i: 1.5, f: Number.NaN, j: '{' }, {}, {})).toEqual({ i: 'integer', f: 'number', j: 'json' });
    expect(validate(fields, { i: 1, f: 1.5, j: '{}' }, {}, {})).toEqual({});
  });
});

describe('malformed values', () => {
  it('never break a control', () => {
    expect(asFallback({ primary: 5, fallbacks: 'x', reasoning: [] })).toEqual({ primary: '', fallbacks: [], reasoning: {} });
    expect(asFallback(null)).toEqual({ primary: '', fallbacks: [], reasoning: {} });
    expect(asPrompt([null, 'x', { role: 'user', content: 5 }])).toEqual([{ role: 'system', content: '' }, { role: 'user', content: '' }]);
  });
});
