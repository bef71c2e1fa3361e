import { isFieldTypeOffered } from './offered';
import type { Condition, FieldSpec, Values } from './types';

export type SystemContext = Record<string, unknown>;

/** Shown, but never part of what is submitted. */
const DISPLAY_ONLY = new Set(['webhook-url', 'embed-code', 'qr-code-login', 'download-link']);
const NUMBERS = new Set(['integer', 'int', 'float', 'number']);

export const REASONING_LEVELS = [
  'provider_default', 'disabled', 'enabled', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max',
];

export interface FallbackValue {
  primary: string;
  fallbacks: string[];
  reasoning: Record<string, string>;
}

export function isSystemField(field: FieldSpec): boolean {
  return field.name.startsWith('__system.');
}
export function isDisplayOnly(field: FieldSpec): boolean {
  return DISPLAY_ONLY.has(field.type) || isSystemField(field);
}
export function isOffered(field: FieldSpec): boolean {
  return isFieldTypeOffered(field.type);
}
export function isNumberType(type: string): boolean {
  return NUMBERS.has(type);
}
export function isListType(type: string): boolean {
  return type === 'array' || type.startsWith('array[');
}

function same(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a === 'object' || typeof b === 'object') return JSON.stringify(a) === JSON.stringify(b);
  return false;
}

export function evaluate(condition: Condition | null | undefined, values: Values, external: Values, system: SystemContext): boolean {
  if (!condition) return true;
  const { field, operator, value } = condition;
  const actual = field.startsWith('__system.')
    ? system[field.slice('__system.'.length)]
    : field in values ? values[field] : external[field];
  switch (operator) {
    case 'eq':
      return same(actual, value);
    case 'neq':
      return !same(actual, value);
    case 'in':
      return Array.isArray(value) && value.some((item) => same(item, actual));
    default:
      return true;
  }
}

/** The n8n runner keeps the credentials of every kind; only those of the chosen kind are shown. */
export function hiddenByAuthType(field: FieldSpec, values: Values): boolean {
  const kind = values['auth-type'];
  if (typeof kind !== 'string' || !['none', 'basic', 'jwt', 'header'].includes(kind)) return false;
  const owner = /^(basic|jwt|header)-/.exec(field.name)?.[1];
  return owner !== undefined && owner !== kind;
}

export function isVisible(field: FieldSpec, values: Values, external: Values, system: SystemContext): boolean {
  if (!isOffered(field)) return false;
  if (isSystemField(field)) {
    const value = system[field.name.slice('__system.'.length)];
    if (value === undefined || value === null || value === '' || (Array.isArray(value) && value.length === 0)) return false;
  }
  if (field.type === 'webhook-url' && !system.webhook_url) return false;
  if (field.type === 'embed-code' && !system.bot_uuid) return false;
  if (field.name === 'box-session-id-template' && system.box_available !== true) return false;
  return evaluate(field.show_if, values, external, system) && !hiddenByAuthType(field, values);
}

export function isInert(field: FieldSpec, values: Values, external: Values, system: SystemContext): boolean {
  return field.disable_if ? evaluate(field.disable_if, values, external, system) : false;
}

export function asFallback(value: unknown): FallbackValue {
  if (typeof value === 'string') return { primary: value, fallbacks: [], reasoning: {} };
  const object = (value && typeof value === 'object' && !Array.isArray(value) ? value : {}) as Partial<FallbackValue>;
  return {
    primary: typeof object.primary === 'string' ? object.primary : '',
    fallbacks: Array.isArray(object.fallbacks) ? object.fallbacks.filter((x) => typeof x === 'string') : [],
    reasoning:
      object.reasoning && typeof object.reasoning === 'object' && !Array.isArray(object.reasoning)
        ? { ...object.reasoning }
        : {},
  };
}

function cleanFallback(value: unknown): FallbackValue {
  const { primary, fallbacks, reasoning } = asFallback(value);
  const kept = fallbacks.filter(Boolean);
  const chosen = new Set([primary, ...kept].filter(Boolean));
  return {
    primary,
    fallbacks: kept,
    reasoning: Object.fromEntries(
      Object.entries(reasoning).filter(
        ([uuid, level]) => chosen.has(uuid) && REASONING_LEVELS.includes(level) && level !== 'provider_default',
      ),
    ),
  };
}

export function asPrompt(value: unknown): { role: string; content: string }[] {
  const rows = Array.isArray(value)
    ? value
        .filter((row): row is { role: string; content: unknown } => row !== null && typeof row === 'object')
        .map((row) => ({ role: String(row.role ?? 'user'), content: typeof row.content === 'string' ? row.content : '' }))
    : [];
  if (rows[0]?.role !== 'system') rows.unshift({ role: 'system', content: '' });
  return rows;
}

function fallbackDefault(field: FieldSpec): unknown {
  if (field.default !== undefined && field.default !== null) return field.default;
  if (isNumberType(field.type)) return 0;
  if (field.type === 'boolean') return false;
  if (isListType(field.type)) return [];
  return '';
}

/** A value as the control shows it. Idempotent, so that merely opening a form never makes it dirty. */
export function coerce(field: FieldSpec, raw: unknown): unknown {
  const value = raw === undefined || raw === null ? fallbackDefault(field) : raw;
  switch (field.type) {
    case 'boolean':
      return typeof value === 'string' ? value.toLowerCase() === 'true' : Boolean(value);
    case 'array':
    case 'array[string]':
      return Array.isArray(value) ? value.map(String) : value === '' ? [] : [String(value)];
    case 'model-fallback-selector':
      return asFallback(value);
    case 'prompt-editor':
      return asPrompt(value);
    default:
      if (isNumberType(field.type)) {
        if (typeof value === 'number') return value;
        const number = Number(value);
        return value !== '' && Number.isFinite(number) ? number : value;
      }
      return value;
  }
}

/** Start values of a form: stored ones, defaults for what is missing, unknown keys kept. */
export function initialValues(fields: FieldSpec[], stored: Values | null | undefined): Values {
  const values: Values = { ...(stored ?? {}) };
  for (const field of fields) {
    if (isDisplayOnly(field)) continue;
    if (!isOffered(field) && !(field.name in values)) {
      if (field.default !== undefined) values[field.name] = field.default;
      continue;
    }
    if (isOffered(field)) values[field.name] = coerce(field, values[field.name]);
  }
  return values;
}

/** What is sent. Single-line strings lose their outer blanks; long texts stay as typed. */
export function submitValues(fields: FieldSpec[], values: Values): Values {
  const out: Values = { ...values };
  for (const field of fields) {
    if (isDisplayOnly(field)) {
      delete out[field.name];
      continue;
    }
    const value = out[field.name];
    if (field.type === 'string' && typeof value === 'string') out[field.name] = value.trim();
    else if (field.type === 'model-fallback-selector') out[field.name] = cleanFallback(value);
    else if (isNumberType(field.type) && value === '') out[field.name] = field.default ?? 0;
  }
  return out;
}

export type FieldError = 'required' | 'number' | 'integer' | 'json';

export function validate(fields: FieldSpec[], values: Values, external: Values, system: SystemContext): Record<string, FieldError> {
  const errors: Record<string, FieldError> = {};
  for (const field of fields) {
    if (isDisplayOnly(field) || !isVisible(field, values, external, system)) continue;
    if (isInert(field, values, external, system)) continue;
    const value = values[field.name];
    if (isNumberType(field.type)) {
      if (value === '' || value === undefined || value === null) {
        if (field.required) errors[field.name] = 'required';
      } else if (typeof value !== 'number' || !Number.isFinite(value)) errors[field.name] = 'number';
      else if ((field.type === 'integer' || field.type === 'int') && !Number.isInteger(value)) errors[field.name] = 'integer';
      continue;
    }
    if (field.type === 'json' && typeof value === 'string' && value.trim()) {
      try {
        JSON.parse(value);
      } catch {
        errors[field.name] = 'json';
        continue;
      }
    }
    if (!field.required) continue;
    if (field.type === 'model-fallback-selector') {
      if (!asFallback(value).primary) errors[field.name] = 'required';
    } else if (typeof value === 'string' ? value.trim() === '' : Array.isArray(value) && value.length === 0) {
      errors[field.name] = 'required';
    }
  }
  return errors;
}
