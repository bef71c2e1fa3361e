import { useMemo, useState, type FormEvent } from 'react';
import { useTranslation } from 'react-i18next';
import { useQueryClient } from '@tanstack/react-query';
import { Plus, Search, Trash2 } from 'lucide-react';
import { toast } from 'sonner';
import { api } from '@/lib/api';
import { errorText } from '@/lib/errors';
import type { Model, ModelKind, Provider, ScannedModel, Values } from '@/lib/types';
import { formatDuration } from '@/lib/utils';
import { Button, IconButton } from '@/ui/button';
import { Badge, EmptyState, Notice, Spinner } from '@/ui/feedback';
import { Field, Input, Select } from '@/ui/form';
import { Dialog } from '@/ui/overlay';
import { Tab, TabList, TabPanel, Tabs } from '@/ui/tabs';

const ABILITIES = ['vision', 'func_call'];
interface Extra {
  key: string;
  type: 'string' | 'number' | 'boolean' | 'object';
  value: string;
}

function toExtras(args: Values | undefined): Extra[] {
  return Object.entries(args ?? {}).map(([key, value]) => {
    if (typeof value === 'number' || typeof value === 'boolean') return { key, type: typeof value as 'number' | 'boolean', value: String(value) };
    if (value && typeof value === 'object') return { key, type: 'object', value: JSON.stringify(value) };
    return { key, type: 'string', value: String(value ?? '') };
  });
}

/** Throws the key of a sentence where a row does not hold what its type says. */
function fromExtras(rows: Extra[]): Values {
  const out: Values = {};
  for (const row of rows) {
    const key = row.key.trim();
    if (!key) continue;
    if (row.type === 'number') {
      const number = Number(row.value);
      if (row.value.trim() === '' || !Number.isFinite(number)) throw new Error('models.extraNumber');
      out[key] = number;
    } else if (row.type === 'boolean') out[key] = row.value === 'true';
    else if (row.type === 'object') {
      let parsed: unknown;
      try {
        parsed = JSON.parse(row.value);
      } catch {
        parsed = null;
      }
      if (!parsed || typeof parsed !== 'object' || Array.isArray(parsed)) throw new Error('models.extraObject');
      out[key] = parsed;
    } else out[key] = row.value;
  }
  return out;
}

export function ModelDialog({ provider, kinds, initialKind, model, onClose }: {
  provider: Provider;
  kinds: ModelKind[];
  initialKind: ModelKind;
  model: Model | null;
  onClose: () => void;
}) {
  const { t } = useTranslation();
  const client = useQueryClient();
  const [kind, setKind] = useState<ModelKind>(kinds.includes(initialKind) ? initialKind : (kinds[0] ?? 'llm'));
  const [mode, setMode] = useState('manual');
  const done = () => {
    void client.invalidateQueries({ queryKey: ['models'] });
    void client.invalidateQueries({ queryKey: ['providers'] });
    onClose();
  };
  return (
    <Dialog
      open
      onOpenChange={onClose}
      title={model ? t('models.editModel', { name: model.name }) : t('models.addModelTo', { name: provider.name })}
      className="w-[min(38rem,calc(100vw-1.5rem))]"
    >
      {kinds.length > 1 && (
        <Field label={t('models.type')} className="mb-4">
          {(control) => (
            <Select {...control} value={kind} onChange={(next) => setKind(next as ModelKind)} options={kinds.map((k) => ({ value: k, label: t(`models.kind.${k}`) }))} />
          )}
        </Field>
      )}
      {model ? (
        <ManualModel kind={kind} provider={provider} model={model} onDone={done} onCancel={onClose} />
      ) : (
        <Tabs value={mode} onValueChange={setMode}>
          <TabList className="mb-4">
            <Tab value="manual">{t('models.manual')}</Tab>
            <Tab value="scan">{t('models.scan')}</Tab>
          </TabList>
          <TabPanel value="manual"><ManualModel key={kind} kind={kind} provider={provider} model={null} onDone={done} onCancel={onClose} /></TabPanel>
          <TabPanel value="scan"><ScanModels key={kind} kind={kind} provider={provider} onDone={done} /></TabPanel>
        </Tabs>
      )}
    </Dialog>
  );
}

function AbilityChecks({ value, onChange, label }: { value: string[]; onChange: (value: string[]) => void; label: string }) {
  const { t } = useTranslation();
  return (
    <fieldset className="flex flex-wrap gap-4">
      <legend className="sr-only">{label}</legend>
      {ABILITIES.map((ability) => (
        <label key={ability} className="flex items-center gap-2 text-sm">
          <input
            type="checkbox"
            className="size-4 accent-(--accent)"
            checked={value.includes(ability)}
            onChange={(e) => onChange(e.target.checked ? [...value, ability] : value.filter((a) => a !== ability))}
          />
          {t(`models.ability.${ability}`)}
        </label>
      ))}
    </fieldset>
  );
}

function ManualModel({ kind, provider, model, onDone, onCancel }: {
  kind: ModelKind;
  provider: Provider;
  model: Model | null;
  onDone: () => void;
  onCancel: () => void;
}) {
  const { t } = useTranslation();
  const [name, setName] = useState(model?.name ?? '');
  const [abilities, setAbilities] = useState<string[]>(model?.abilities ?? []);
  const [context, setContext] = useState(model?.context_length ? String(model.context_length) : '');
  const [extras, setExtras] = useState<Extra[]>(toExtras(model?.extra_args));
  const [errors, setErrors] = useState<{ name?: string; context?: string; extras?: string }>({});
  const [result, setResult] = useState<{ tone: 'ok' | 'bad'; text: string } | null>(null);
  const [busy, setBusy] = useState<'save' | 'test' | null>(null);

  const collect = (): Values | null => {
    const found: typeof errors = {};
    if (!name.trim()) found.name = t('models.noModelName');
    if (context.trim() && !/^[1-9]\d*$/.test(context.trim())) found.context = t('models.badContext');
    let extra: Values = {};
    try {
      extra = fromExtras(extras);
    } catch (error) {
      found.extras = t((error as Error).message);
    }
    setErrors(found);
    if (Object.keys(found).length > 0) return null;
    return {
      name: name.trim(),
      provider_uuid: provider.uuid,
      extra_args: extra,
      ...(kind === 'llm' ? { abilities, context_length: context.trim() ? Number(context) : null } : {}),
    };
  };

  const save = async (event: FormEvent) => {
    event.preventDefault();
    const body = collect();
    if (!body) return;
    setBusy('save');
    setResult(null);
    try {
      if (model) await api.put(`/provider/models/${kind}/${model.uuid}`, body);
      else await api.post(`/provider/models/${kind}`, body);
      toast.success(t('common.saved'));
      onDone();
    } catch (error) {
      setResult({ tone: 'bad', text: errorText(error) });
      setBusy(null);
    }
  };

  const test = async () => {
    const body = collect();
    if (!body) return;
    setBusy('test');
    setResult(null);
    const start = performance.now();
    try {
      await api.post(
        `/provider/models/${kind}/_/test`,
        {
          ...body,
          uuid: '',
          provider: { uuid: provider.uuid, requester: provider.requester, base_url: provider.base_url, api_keys: provider.api_keys ?? [] },
        },
        { timeout: 120_000 },
      );
      setResult({ tone: 'ok', text: t('models.testOk', { time: formatDuration(performance.now() - start) }) });
    } catch (error) {
      setResult({ tone: 'bad', text: `${t('models.testFailed')} ${errorText(error)}` });
    } finally {
      setBusy(null);
    }
  };

  const row = (index: number, part: Partial<Extra>) => setExtras(extras.map((x, i) => (i === index ? { ...x, ...part } : x)));
  return (
    <form noValidate onSubmit={save} aria-busy={busy !== null} className="flex flex-col gap-4">
      <Field label={t('models.modelName')} required error={errors.name} hint={t('models.modelNameHint')}>
        {(control) => <Input {...control} autoFocus spellCheck={false} className="font-mono text-[13px]" value={name} onChange={(e) => setName(e.target.value)} />}
      </Field>
      {kind === 'llm' && (
        <>
          <div>
            <p className="mb-1.5 text-sm font-medium">{t('models.abilities')}</p>
            <AbilityChecks value={abilities} onChange={setAbilities} label={t('models.abilities')} />
          </div>
          <Field label={t('models.context')} error={errors.context} hint={t('models.contextHint')}>
            {(control) => <Input {...control} inputMode="numeric" className="max-w-48" value={context} onChange={(e) => setContext(e.target.value)} />}
          </Field>
        </>
      )}
      <div className="flex flex-col gap-2">
        <p className="text-sm font-medium">{t('models.extra')}</p>
        <p className="-mt-1 text-[13px] text-muted">{t(kind === 'rerank' ? 'models.extraRerank' : 'models.extraHint')}</p>
        {extras.map((extra, index) => (
          <div key={index} className="flex flex-wrap items-center gap-2 sm:flex-nowrap">
            <Input aria-label={t('models.extraKey')} placeholder={t('models.extraKey')} className="font-mono text-[13px]" value={extra.key} onChange={(e) => row(index, { key: e.target.value })} />
            <Select
              aria-label={t('models.extraType')}
              className="w-32 shrink-0"
              value={extra.type}
              onChange={(type) => row(index, { type: type as Extra['type'], value: type === 'boolean' ? 'true' : extra.value })}
              options={['string', 'number', 'boolean', 'object'].map((x) => ({ value: x, label: t(`models.extraTypes.${x}`) }))}
            />
            {extra.type === 'boolean' ? (
              <Select aria-label={t('models.extraValue')} value={extra.value} onChange={(value) => row(index, { value })} options={['true', 'false'].map((x) => ({ value: x, label: x }))} />
            ) : (
              <Input aria-label={t('models.extraValue')} placeholder={extra.type === 'object' ? '{ }' : t('models.extraValue')} className="font-mono text-[13px]" value={extra.value} onChange={(e) => row(index, { value: e.target.value })} />
            )}
            <IconButton label={t('form.removeRow', { n: index + 1 })} size="iconSm" onClick={() => setExtras(extras.filter((_, i) => i !== index))}>
              <Trash2 className="size-4 text-muted" aria-hidden />
            </IconButton>
          </div>
        ))}
        {errors.extras && <p role="alert" className="text-[13px] text-bad">{errors.extras}</p>}
        <Button size="sm" className="self-start" onClick={() => setExtras([...extras, { key: '', type: 'string', value: '' }])}>
          <Plus className="size-4" aria-hidden />
          {t('form.addRow')}
        </Button>
      </div>
      <div aria-live="polite">{result && <Notice tone={result.tone}>{result.text}</Notice>}</div>
      <div className="flex flex-wrap justify-end gap-2">
        <Button className="mr-auto" busy={busy === 'test'} disabled={busy !== null} onClick={() => void test()}>{t('models.test')}</Button>
        <Button onClick={onCancel}>{t('common.cancel')}</Button>
        <Button type="submit" variant="primary" busy={busy === 'save'} disabled={busy !== null}>{t('common.save')}</Button>
      </div>
    </form>
  );
}

function ScanModels({ kind, provider, onDone }: { kind: ModelKind; provider: Provider; onDone: () => void }) {
  const { t } = useTranslation();
  const [models, setModels] = useState<ScannedModel[] | null>(null);
  const [failure, setFailure] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const [query, setQuery] = useState('');
  const [chosen, setChosen] = useState<Record<string, string[]>>({});
  const [progress, setProgress] = useState<{ done: number; total: number } | null>(null);

  const scan = async () => {
    setBusy(true);
    setFailure(null);
    try {
      const { models: found } = await api.get<{ models: ScannedModel[] }>(`/provider/providers/${provider.uuid}/scan-models`, { type: kind });
      setModels(found);
      setChosen({});
    } catch (error) {
      setFailure(errorText(error));
    } finally {
      setBusy(false);
    }
  };

  const shown = useMemo(() => (models ?? []).filter((m) => `${m.id} ${m.name}`.toLowerCase().includes(query.trim().toLowerCase())), [models, query]);
  const free = shown.filter((m) => !m.already_added);
  const allChosen = free.length > 0 && free.every((m) => chosen[m.id]);
  const count = Object.keys(chosen).length;
  const toggle = (m: ScannedModel) =>
    setChosen((old) => {
      const { [m.id]: had, ...rest } = old;
      return had ? rest : { ...old, [m.id]: m.abilities ?? [] };
    });

  const add = async () => {
    const entries = Object.entries(chosen);
    setFailure(null);
    setProgress({ done: 0, total: entries.length });
    try {
      for (const [index, [id, abilities]] of entries.entries()) {
        const found = models?.find((m) => m.id === id);
        await api.post(`/provider/models/${kind}`, {
          name: id,
          provider_uuid: provider.uuid,
          extra_args: {},
          ...(kind === 'llm' ? { abilities, context_length: found?.context_length ?? null } : {}),
        });
        setProgress({ done: index + 1, total: entries.length });
        setChosen((old) => {
          const { [id]: _done, ...rest } = old;
          return rest;
        });
        setModels((old) => old?.map((m) => (m.id === id ? { ...m, already_added: true } : m)) ?? null);
      }
      toast.success(t('common.saved'));
      onDone();
    } catch (error) {
      setFailure(errorText(error));
    } finally {
      setProgress(null);
    }
  };

  if (busy) return <Spinner label={t('models.scanning')} />;
  if (models === null) {
    return (
      <EmptyState icon={<Search aria-hidden />} title={t('models.scanTitle')} action={<Button variant="primary" onClick={() => void scan()}>{t('models.scanStart')}</Button>}>
        <p>{t('models.scanHint')}</p>
        {failure && <Notice tone="bad" className="mt-3 text-left">{failure}</Notice>}
      </EmptyState>
    );
  }
  return (
    <div className="flex flex-col gap-3">
      <Input type="search" aria-label={t('common.search')} placeholder={t('common.search')} value={query} onChange={(e) => setQuery(e.target.value)} />
      {shown.length === 0 ? (
        <p className="py-6 text-center text-sm text-muted">{t('common.nothingFound')}</p>
      ) : (
        <>
          <label className="flex items-center gap-2 text-sm">
            <input
              type="checkbox"
              className="size-4 accent-(--accent)"
              checked={allChosen}
              disabled={free.length === 0}
              onChange={() =>
                setChosen((old) =>
                  allChosen
                    ? Object.fromEntries(Object.entries(old).filter(([id]) => !free.some((m) => m.id === id)))
                    : { ...old, ...Object.fromEntries(free.map((m) => [m.id, old[m.id] ?? m.abilities ?? []])) },
                )
              }
            />
            {t('models.selectAll')}
          </label>
          <ul className="max-h-72 divide-y overflow-y-auto rounded-lg border">
            {shown.map((m) => (
              <li key={m.id} className="px-3 py-2">
                <label className="flex items-center gap-2.5 text-sm">
                  <input type="checkbox" className="size-4 accent-(--accent)" disabled={m.already_added} checked={m.already_added === true || Boolean(chosen[m.id])} onChange={() => toggle(m)} />
                  <span className="min-w-0 flex-1 truncate font-mono text-[13px]">{m.name || m.id}</span>
                  {m.already_added && <Badge>{t('models.added')}</Badge>}
                </label>
                {kind === 'llm' && chosen[m.id] && (
                  <div className="mt-2 ml-6.5">
                    <AbilityChecks label={m.name} value={chosen[m.id] ?? []} onChange={(next) => setChosen((old) => ({ ...old, [m.id]: next }))} />
                  </div>
                )}
              </li>
            ))}
          </ul>
        </>
      )}
      {failure && <Notice tone="bad">{failure}</Notice>}
      <div className="flex justify-end gap-2">
        <Button onClick={() => void scan()} disabled={progress !== null}>{t('models.scanAgain')}</Button>
        <Button variant="primary" disabled={count === 0} busy={progress !== null} onClick={() => void add()}>
          {progress ? t('models.adding', progress) : t('models.addChosen', { n: count })}
        </Button>
      </div>
    </div>
  );
}
