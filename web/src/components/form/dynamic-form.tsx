import { useId } from 'react';
import { useTranslation } from 'react-i18next';
import { Info } from 'lucide-react';
import { pick } from '@/lib/i18n';
import {
  isDisplayOnly, isInert, isListType, isNumberType, isSystemField, isVisible, type FieldError, type SystemContext,
} from '@/lib/form-values';
import type { FieldSpec, Values } from '@/lib/types';
import { Field, Input, Select, Switch, Textarea, type FieldControl } from '@/ui/form';
import { CopyRow } from '@/ui/feedback';
import { Popover } from '@/ui/overlay';
import { ListField } from './list-field';
import { FallbackField, ModelField } from './model-fields';
import { PromptField } from './prompt-field';
import { ToolsField } from './tools-field';
import { BotField, DownloadField, EmbedField, SuggestField, WebhookField } from './special-fields';

const KNOWN = new Set(['string', 'text', 'select', 'secret', 'json']);

/**
 * Renders the fields that the server declares. It holds no state: the page owns the values, so that switching a tab
 * or a condition never loses an edit.
 */
export function DynamicForm({
  fields, values, onChange, external = {}, system, errors = {}, readOnly = false,
}: {
  fields: FieldSpec[];
  values: Values;
  onChange: (values: Values) => void;
  external?: Values;
  system: SystemContext;
  errors?: Record<string, FieldError>;
  readOnly?: boolean;
}) {
  const { t } = useTranslation();
  const visible = fields.filter((field) => isVisible(field, values, external, system));
  if (visible.length === 0) return <p className="text-sm text-muted">{t('form.nothing')}</p>;
  return (
    <div className="flex flex-col gap-5">
      {visible.map((field) => (
        <FieldRow
          key={field.name}
          field={field}
          value={values[field.name]}
          values={values}
          set={(value) => onChange({ ...values, [field.name]: value })}
          merge={(part) => onChange({ ...values, ...part })}
          system={system}
          error={errors[field.name]}
          inert={isInert(field, values, external, system)}
          readOnly={readOnly}
        />
      ))}
    </div>
  );
}

function InertHint({ field }: { field: FieldSpec }) {
  const { t } = useTranslation();
  const text = pick(field.disabled_tooltip) || t('form.inert');
  // A popover and not a tooltip: it has to open by a tap as well.
  return (
    <Popover
      className="max-w-72 text-[13px]"
      trigger={
        <button type="button" className="rounded text-muted hover:text-text" aria-label={t('form.whyInert')} title={text}>
          <Info className="size-4" aria-hidden />
        </button>
      }
    >
      {text}
    </Popover>
  );
}

interface RowProps {
  field: FieldSpec;
  value: unknown;
  values: Values;
  set: (value: unknown) => void;
  /** For the few controls that own more than one key. */
  merge: (part: Values) => void;
  system: SystemContext;
  error?: FieldError;
  inert: boolean;
  readOnly: boolean;
}

function FieldRow({ field, value, values, set, merge, system, error, inert, readOnly }: RowProps) {
  const { t } = useTranslation();
  const label = pick(field.label) || field.name;
  const hint = pick(field.description) || undefined;
  const disabled = inert || readOnly;
  const message = error ? t(`form.error.${error}`) : undefined;
  const trailing = inert ? <InertHint field={field} /> : undefined;

  if (isSystemField(field)) return <SystemRow field={field} label={label} hint={hint} system={system} />;
  if (field.type === 'boolean') {
    return <BooleanRow label={label} hint={hint} checked={value === true} onChange={set} disabled={disabled} trailing={trailing} />;
  }
  if (isDisplayOnly(field)) {
    if (field.type === 'webhook-url') return <WebhookField label={label} hint={hint} system={system} />;
    if (field.type === 'embed-code') return <EmbedField label={label} hint={hint} system={system} title={String(values.title ?? '')} />;
    return <DownloadField field={field} label={label} hint={hint} />;
  }
  const known = KNOWN.has(field.type) || isNumberType(field.type) || isListType(field.type) || field.type.endsWith('-selector') || field.type === 'prompt-editor';
  return (
    <Field label={label} hint={known ? hint : <>{hint} {t('form.unknownType', { type: field.type })}</>} error={message} required={field.required} trailing={trailing}>
      {(control) =>
        field.type === 'rich-tools-selector'
          ? <ToolsField values={values} merge={merge} disabled={disabled} control={control} />
          : <Control field={field} value={value} set={set} disabled={disabled} control={control} />}
    </Field>
  );
}

function BooleanRow({ label, hint, checked, onChange, disabled, trailing }: {
  label: string;
  hint?: string;
  checked: boolean;
  onChange: (value: boolean) => void;
  disabled: boolean;
  trailing?: React.ReactNode;
}) {
  const id = useId();
  return (
    <div className="flex items-center gap-4 rounded-lg border px-4 py-3">
      <div className="min-w-0 flex-1">
        <div className="flex items-center gap-2">
          <label htmlFor={id} className="text-sm font-medium">{label}</label>
          {trailing}
        </div>
        {hint && <p id={`${id}-hint`} className="mt-0.5 text-[13px] leading-snug text-muted">{hint}</p>}
      </div>
      <Switch id={id} checked={checked} onCheckedChange={onChange} disabled={disabled} aria-describedby={hint ? `${id}-hint` : undefined} />
    </div>
  );
}

function SystemRow({ field, label, hint, system }: { field: FieldSpec; label: string; hint?: string; system: SystemContext }) {
  const value = system[field.name.slice('__system.'.length)];
  const rows = Array.isArray(value) ? value.map(String) : [String(value)];
  return (
    <div className="flex flex-col gap-1.5">
      <span className="text-sm font-medium">{label}</span>
      {rows.map((row) => (
        <CopyRow key={row} value={row} label={label} />
      ))}
      {hint && <p className="text-[13px] text-muted">{hint}</p>}
    </div>
  );
}

function Control({ field, value, set, disabled, control }: {
  field: FieldSpec;
  value: unknown;
  set: (value: unknown) => void;
  disabled: boolean;
  control: FieldControl;
}) {
  const { t } = useTranslation();
  const text = value === undefined || value === null ? '' : typeof value === 'object' ? JSON.stringify(value, null, 2) : String(value);
  if (isNumberType(field.type)) {
    return (
      <Input
        {...control}
        type="number"
        inputMode={field.type === 'integer' || field.type === 'int' ? 'numeric' : 'decimal'}
        step={field.type === 'integer' || field.type === 'int' ? 1 : 'any'}
        className="max-w-48"
        value={text}
        disabled={disabled}
        onChange={(event) => set(event.target.value === '' ? '' : Number(event.target.value))}
      />
    );
  }
  switch (field.type) {
    case 'text':
      return <Textarea {...control} rows={4} value={text} disabled={disabled} onChange={(event) => set(event.target.value)} />;
    case 'json':
      return <Textarea {...control} rows={4} spellCheck={false} className="font-mono text-[13px]" value={text} disabled={disabled} onChange={(event) => set(event.target.value)} />;
    case 'select':
      return (
        <Select
          {...control}
          className="max-w-md"
          value={text}
          disabled={disabled}
          onChange={set}
          placeholder={t('form.choose')}
          options={(field.options ?? []).filter((o) => o.name !== '').map((o) => ({ value: o.name, label: pick(o.label) || o.name }))}
        />
      );
    case 'array':
    case 'array[string]':
      return <ListField label={pick(field.label) || field.name} control={control} value={Array.isArray(value) ? value.map(String) : []} onChange={set} disabled={disabled} />;
    case 'prompt-editor':
      return <PromptField value={value} onChange={set} disabled={disabled} control={control} />;
    case 'model-fallback-selector':
      return <FallbackField value={value} onChange={set} disabled={disabled} control={control} />;
    case 'llm-model-selector':
    case 'embedding-model-selector':
    case 'rerank-model-selector':
      return (
        <ModelField
          kind={field.type.startsWith('llm') ? 'llm' : field.type.startsWith('embedding') ? 'embedding' : 'rerank'}
          value={text}
          onChange={set}
          disabled={disabled}
          control={control}
        />
      );
    case 'bot-selector':
      return <BotField value={text} onChange={set} disabled={disabled} control={control} />;
    default:
      if (field.options && field.options.length > 0) {
        return <SuggestField value={text} onChange={set} disabled={disabled} control={control} options={field.options} />;
      }
      return <Input {...control} autoComplete="off" value={text} disabled={disabled} onChange={(event) => set(event.target.value)} />;
  }
}
