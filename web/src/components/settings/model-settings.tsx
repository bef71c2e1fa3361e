import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { useQueryClient } from '@tanstack/react-query';
import { Boxes, ChevronDown, Pencil, Plus, Timer, Trash2 } from 'lucide-react';
import { toast } from 'sonner';
import { RequesterIcon } from '@/components/adapter-icon';
import { Abilities, ReasoningSelect } from '@/components/form/model-fields';
import { api } from '@/lib/api';
import { errorText } from '@/lib/errors';
import { pick } from '@/lib/i18n';
import { useModels, useProviders, useRequesters } from '@/lib/queries';
import { useCan } from '@/lib/session';
import type { Model, ModelKind, Provider, Requester } from '@/lib/types';
import { cn, formatDuration } from '@/lib/utils';
import { Button, IconButton } from '@/ui/button';
import { Badge, EmptyState, ErrorState, Notice, Spinner } from '@/ui/feedback';
import { Confirm } from '@/ui/overlay';
import { ModelDialog } from './model-dialog';
import { KINDS, kindsOf } from './model-kinds';
import { ProviderDialog } from './provider-dialog';
import { Heading } from './parts';

export function ModelSettings({ onLock }: { onLock: (locked: boolean) => void }) {
  const { t } = useTranslation();
  const client = useQueryClient();
  const providers = useProviders();
  const requesters = useRequesters();
  const maySecret = useCan('provider_secret.manage');
  const [editing, setEditing] = useState<Provider | 'new' | null>(null);
  const [expanded, setExpanded] = useState<string | null>(null);

  const edit = (provider: Provider | 'new') => {
    setEditing(provider);
    onLock(true);
  };
  const close = (saved?: string, deleted?: string) => {
    setEditing(null);
    onLock(false);
    if (saved) setExpanded(saved);
    void client.invalidateQueries({ queryKey: ['providers'] });
    // The models of a deleted provider are still on screen for a moment; asking for them would be answered with 404.
    void client.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] === 'models' && (!deleted || queryKey[2] !== deleted) });
  };

  const list = providers.data?.filter((p) => p.requester !== 'space-chat-completions') ?? [];
  return (
    <section>
      <Heading
        title={t('settings.models')}
        description={t('models.hint')}
        actions={
          maySecret && (
            <Button variant="primary" size="sm" onClick={() => edit('new')}>
              <Plus className="size-4" aria-hidden />
              {t('models.addProvider')}
            </Button>
          )
        }
      />
      {providers.isPending && <Spinner />}
      {providers.isError && <ErrorState error={providers.error} onRetry={() => void providers.refetch()} />}
      {providers.isSuccess && list.length === 0 && (
        <EmptyState
          icon={<Boxes aria-hidden />}
          title={t('models.noProviders')}
          action={maySecret && <Button variant="primary" onClick={() => edit('new')}>{t('models.addProvider')}</Button>}
        >
          {t('models.noProvidersHint')}
        </EmptyState>
      )}
      <ul className="flex flex-col gap-3">
        {list.map((provider) => (
          <li key={provider.uuid}>
            <ProviderCard
              provider={provider}
              requester={requesters.data?.find((r) => r.name === provider.requester)}
              open={expanded === provider.uuid || (expanded === null && list.length === 1)}
              onToggle={(open) => setExpanded(open ? provider.uuid : '')}
              onEdit={() => edit(provider)}
              maySecret={maySecret}
            />
          </li>
        ))}
      </ul>
      {editing !== null && <ProviderDialog provider={editing === 'new' ? null : editing} onClose={close} />}
    </section>
  );
}

function ProviderCard({ provider, requester, open, onToggle, onEdit, maySecret }: {
  provider: Provider;
  requester: Requester | undefined;
  open: boolean;
  onToggle: (open: boolean) => void;
  onEdit: () => void;
  maySecret: boolean;
}) {
  const { t } = useTranslation();
  const [adding, setAdding] = useState<Model | 'new' | null>(null);
  const [editKind, setEditKind] = useState<ModelKind>('llm');
  const supported = kindsOf(requester);
  const counts = KINDS.filter((kind) => (provider[`${kind}_count`] ?? 0) > 0);
  return (
    <div className="rounded-lg border">
      <div className="flex items-center gap-3 px-4 py-3">
        <RequesterIcon name={provider.requester} className="size-6" />
        <button type="button" aria-expanded={open} onClick={() => onToggle(!open)} className="flex min-w-0 flex-1 items-center gap-3 rounded-md text-left">
          <span className="min-w-0 flex-1">
            <span className="block truncate text-sm font-medium">{provider.name}</span>
            <span className="block truncate text-[13px] text-muted">{pick(requester?.label) || provider.requester}</span>
          </span>
          <span className="hidden gap-1.5 sm:flex">
            {counts.length === 0 && <Badge>{t('models.noModels')}</Badge>}
            {counts.map((kind) => (
              <Badge key={kind}>{t(`models.count.${kind}`, { count: provider[`${kind}_count`] ?? 0 })}</Badge>
            ))}
          </span>
          <ChevronDown className={cn('size-4 text-muted transition-transform', open && 'rotate-180')} aria-hidden />
        </button>
        {maySecret && (
          <IconButton label={t('models.editProvider', { name: provider.name })} size="iconSm" onClick={onEdit}>
            <Pencil className="size-4 text-muted" aria-hidden />
          </IconButton>
        )}
      </div>
      {open && (
        <div className="flex flex-col gap-4 border-t px-4 py-3">
          {KINDS.filter((kind) => supported.includes(kind) || (provider[`${kind}_count`] ?? 0) > 0).map((kind) => (
            <ModelList
              key={kind}
              kind={kind}
              provider={provider}
              onEdit={(model) => {
                setEditKind(kind);
                setAdding(model);
              }}
            />
          ))}
          {maySecret && (
            <Button size="sm" className="self-start" onClick={() => { setEditKind(supported[0] ?? 'llm'); setAdding('new'); }}>
              <Plus className="size-4" aria-hidden />
              {t('models.addModel')}
            </Button>
          )}
        </div>
      )}
      {adding !== null && (
        <ModelDialog provider={provider} kinds={adding === 'new' ? supported : [editKind]} initialKind={editKind} model={adding === 'new' ? null : adding} onClose={() => setAdding(null)} />
      )}
    </div>
  );
}

function ModelList({ kind, provider, onEdit }: { kind: ModelKind; provider: Provider; onEdit: (model: Model) => void }) {
  const { t } = useTranslation();
  const client = useQueryClient();
  const models = useModels(kind, provider.uuid);
  const maySecret = useCan('provider_secret.manage');
  const mayManage = useCan('resource.manage');
  const [testing, setTesting] = useState<string | null>(null);
  const [results, setResults] = useState<Record<string, { ok: boolean; text: string }>>({});
  const [deleting, setDeleting] = useState<Model | null>(null);

  const test = async (model: Model) => {
    setTesting(model.uuid);
    const start = performance.now();
    try {
      await api.post(`/provider/models/${kind}/${model.uuid}/test`, { extra_args: model.extra_args ?? {} }, { timeout: 120_000 });
      setResults((old) => ({ ...old, [model.uuid]: { ok: true, text: t('models.testOk', { time: formatDuration(performance.now() - start) }) } }));
    } catch (error) {
      setResults((old) => ({ ...old, [model.uuid]: { ok: false, text: `${t('models.testFailed')} ${errorText(error)}` } }));
    } finally {
      setTesting(null);
    }
  };
  const setLevel = async (model: Model, level: string) => {
    try {
      await api.put(`/provider/models/${kind}/${model.uuid}`, { reasoning_config: { level } });
      await client.invalidateQueries({ queryKey: ['models', kind] });
    } catch (error) {
      toast.error(errorText(error));
    }
  };

  if (models.isPending) return <Spinner className="p-2" />;
  if (models.isError) return <ErrorState error={models.error} onRetry={() => void models.refetch()} className="py-3" />;
  if (models.data.length === 0) return null;
  return (
    <div>
      <h3 className="mb-1.5 text-[13px] font-medium text-muted">{t(`models.kind.${kind}`)}</h3>
      <ul className="divide-y rounded-md border">
        {models.data.map((model) => {
          const result = results[model.uuid];
          return (
            <li key={model.uuid} className="px-3 py-2">
              <div className="flex flex-wrap items-center gap-x-2 gap-y-1.5">
                <span className="min-w-0 flex-1 basis-40 truncate font-mono text-[13px]">{model.name}</span>
                <Abilities abilities={model.abilities} />
                {kind === 'llm' && maySecret && (
                  <ReasoningSelect model={model} value={model.reasoning_config?.level ?? ''} onChange={(level) => void setLevel(model, level)} />
                )}
                {maySecret && (
                  <Button size="sm" variant="ghost" busy={testing === model.uuid} disabled={testing !== null} onClick={() => void test(model)}>
                    {testing !== model.uuid && <Timer className="size-4" aria-hidden />}
                    {t('models.test')}
                  </Button>
                )}
                {maySecret && (
                  <IconButton label={t('models.editModel', { name: model.name })} size="iconSm" onClick={() => onEdit(model)}>
                    <Pencil className="size-4 text-muted" aria-hidden />
                  </IconButton>
                )}
                {mayManage && (
                  <IconButton label={t('models.deleteModel', { name: model.name })} size="iconSm" onClick={() => setDeleting(model)}>
                    <Trash2 className="size-4 text-muted" aria-hidden />
                  </IconButton>
                )}
              </div>
              {result && <Notice tone={result.ok ? 'ok' : 'bad'} className="mt-2">{result.text}</Notice>}
            </li>
          );
        })}
      </ul>
      <Confirm
        open={deleting !== null}
        onOpenChange={(open) => !open && setDeleting(null)}
        title={t('models.deleteModelTitle')}
        description={t('models.deleteModelText', { name: deleting?.name ?? '' })}
        action={t('common.delete')}
        onConfirm={async () => {
          await api.del(`/provider/models/${kind}/${deleting?.uuid}`);
          void client.invalidateQueries({ queryKey: ['models'] });
          void client.invalidateQueries({ queryKey: ['providers'] });
        }}
      />
    </div>
  );
}
