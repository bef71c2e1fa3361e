import { useMemo } from 'react';
import { useTranslation } from 'react-i18next';
import { useSearchParams } from 'react-router';
import { ArrowDown, ArrowUp, Eye, Plus, Settings2, Trash2, Wrench } from 'lucide-react';
import { RequesterIcon } from '@/components/adapter-icon';
import { openSettings } from '@/components/settings/actions';
import { REASONING_LEVELS, asFallback } from '@/lib/form-values';
import { useModels, useProviders } from '@/lib/queries';
import type { Model, ModelKind } from '@/lib/types';
import { Button, IconButton } from '@/ui/button';
import { Combobox, type ComboItem } from '@/ui/combobox';
import { Select, type FieldControl } from '@/ui/form';

export function Abilities({ abilities }: { abilities?: string[] }) {
  const { t } = useTranslation();
  return (
    <span className="flex gap-1 text-muted">
      {abilities?.includes('vision') && <Eye className="size-3.5" aria-label={t('models.ability.vision')} />}
      {abilities?.includes('func_call') && <Wrench className="size-3.5" aria-label={t('models.ability.func_call')} />}
    </span>
  );
}

function useModelItems(kind: ModelKind): { items: ComboItem[]; models: Model[] } {
  const { t } = useTranslation();
  const models = useModels(kind);
  const providers = useProviders();
  return useMemo(() => {
    const byId = new Map((providers.data ?? []).map((p) => [p.uuid, p]));
    const list = models.data ?? [];
    const items = list.map((model) => {
      const provider = model.provider ?? byId.get(model.provider_uuid);
      return {
        value: model.uuid,
        label: model.name,
        group: provider?.name ?? t('models.otherProvider'),
        search: provider?.name,
        icon: provider ? <RequesterIcon name={provider.requester} className="size-4" /> : undefined,
        extra: <Abilities abilities={model.abilities} />,
      };
    });
    return { items, models: list };
  }, [models.data, providers.data, t]);
}

function ManageModels() {
  const { t } = useTranslation();
  const [, setParams] = useSearchParams();
  return (
    <Button variant="ghost" size="sm" className="w-full justify-start" onClick={() => openSettings(setParams, 'showModelSettings')}>
      <Settings2 className="size-4" aria-hidden />
      {t('models.manage')}
    </Button>
  );
}

export function ModelField({ kind, value, onChange, disabled, control }: {
  kind: ModelKind;
  value: string;
  onChange: (value: string) => void;
  disabled: boolean;
  control: FieldControl;
}) {
  const { t } = useTranslation();
  const { items } = useModelItems(kind);
  const all = kind === 'rerank' ? [{ value: '__none__', label: t('form.none') }, ...items] : items;
  return (
    <Combobox
      {...control}
      className="max-w-md"
      items={all}
      value={value}
      onChange={onChange}
      disabled={disabled}
      placeholder={t('models.choose')}
      emptyText={t('models.noneYet')}
      footer={<ManageModels />}
    />
  );
}

export function ReasoningSelect({ model, value, onChange, disabled }: {
  model: Model | undefined;
  value: string;
  onChange: (level: string) => void;
  disabled?: boolean;
}) {
  const { t } = useTranslation();
  const reported = model?.reasoning_capabilities?.supported ? (model.reasoning_capabilities.levels ?? []) : [];
  const levels = REASONING_LEVELS.filter((level) => level === 'provider_default' || reported.includes(level));
  if (levels.length < 2) return null;
  return (
    <Select
      aria-label={t('models.reasoningOf', { model: model?.name ?? '' })}
      className="w-44"
      value={value || 'provider_default'}
      disabled={disabled}
      onChange={onChange}
      options={levels.map((level) => ({ value: level, label: t(`models.reasoning.${level}`) }))}
    />
  );
}

export function FallbackField({ value, onChange, disabled, control }: {
  value: unknown;
  onChange: (value: unknown) => void;
  disabled: boolean;
  control: FieldControl;
}) {
  const { t } = useTranslation();
  const { items, models } = useModelItems('llm');
  const current = asFallback(value);
  const modelOf = (uuid: string) => models.find((m) => m.uuid === uuid);
  const setFallbacks = (fallbacks: string[]) => onChange({ ...current, fallbacks });
  const setLevel = (uuid: string, level: string) => onChange({ ...current, reasoning: { ...current.reasoning, [uuid]: level } });
  const swap = (a: number, b: number) => {
    const next = current.fallbacks.slice();
    [next[a], next[b]] = [next[b] ?? '', next[a] ?? ''];
    setFallbacks(next);
  };
  return (
    <div className="flex flex-col gap-3">
      <div className="flex flex-wrap gap-2">
        <Combobox
          {...control}
          className="min-w-0 flex-1 basis-60 max-w-md"
          items={items}
          value={current.primary}
          onChange={(primary) => onChange({ ...current, primary })}
          disabled={disabled}
          placeholder={t('models.choose')}
          emptyText={t('models.noneYet')}
          footer={<ManageModels />}
        />
        <ReasoningSelect model={modelOf(current.primary)} value={current.reasoning[current.primary] ?? ''} disabled={disabled} onChange={(level) => setLevel(current.primary, level)} />
      </div>
      {current.fallbacks.map((uuid, index) => (
        <div key={index} className="flex flex-wrap items-center gap-2">
          <span className="w-full text-[13px] text-muted sm:w-auto">{t('models.fallback', { n: index + 1 })}</span>
          <Combobox
            aria-label={t('models.fallback', { n: index + 1 })}
            className="min-w-0 flex-1 basis-52 max-w-sm"
            items={items}
            value={uuid}
            onChange={(next) => setFallbacks(current.fallbacks.map((old, i) => (i === index ? next : old)))}
            disabled={disabled}
            placeholder={t('models.choose')}
            emptyText={t('models.noneYet')}
          />
          <ReasoningSelect model={modelOf(uuid)} value={current.reasoning[uuid] ?? ''} disabled={disabled} onChange={(level) => setLevel(uuid, level)} />
          <IconButton label={t('form.moveUp')} size="iconSm" disabled={disabled || index === 0} onClick={() => swap(index, index - 1)}>
            <ArrowUp className="size-4" aria-hidden />
          </IconButton>
          <IconButton label={t('form.moveDown')} size="iconSm" disabled={disabled || index === current.fallbacks.length - 1} onClick={() => swap(index, index + 1)}>
            <ArrowDown className="size-4" aria-hidden />
          </IconButton>
          <IconButton label={t('models.removeFallback', { n: index + 1 })} size="iconSm" disabled={disabled} onClick={() => setFallbacks(current.fallbacks.filter((_, i) => i !== index))}>
            <Trash2 className="size-4 text-muted" aria-hidden />
          </IconButton>
        </div>
      ))}
      <Button size="sm" className="self-start" disabled={disabled} onClick={() => setFallbacks([...current.fallbacks, ''])}>
        <Plus className="size-4" aria-hidden />
        {t('models.addFallback')}
      </Button>
    </div>
  );
}
