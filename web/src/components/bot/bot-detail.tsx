import { useEffect, useMemo, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { Link, useNavigate, useSearchParams } from 'react-router';
import { useQueryClient } from '@tanstack/react-query';
import { ExternalLink, Trash2 } from 'lucide-react';
import { toast } from 'sonner';
import { AdapterIcon } from '@/components/adapter-icon';
import { usePage } from '@/components/crumbs';
import { UnsavedGuard } from '@/components/unsaved-guard';
import { DynamicForm } from '@/components/form/dynamic-form';
import { api } from '@/lib/api';
import { errorText } from '@/lib/errors';
import { initialValues, submitValues, validate, type FieldError } from '@/lib/form-values';
import { pick } from '@/lib/i18n';
import { adapterLabel, helpLink } from '@/lib/platform';
import { useAdapters, useBot, usePipelines } from '@/lib/queries';
import { useCan, useSession } from '@/lib/session';
import type { Adapter, Bot, RoutingRule, Values } from '@/lib/types';
import { stable } from '@/lib/utils';
import { Button, buttonClass } from '@/ui/button';
import { Badge, ErrorState, Notice, Section, Spinner } from '@/ui/feedback';
import { Field, Input, Select, Switch } from '@/ui/form';
import { Confirm } from '@/ui/overlay';
import { Tab, TabList, TabPanel, Tabs } from '@/ui/tabs';
import { BotLogs } from './bot-logs';
import { BotSessions } from './bot-sessions';
import { Deliveries } from './deliveries';
import { HealthBadge } from './health';
import { RoutingRules } from './routing-rules';

interface Draft {
  name: string;
  description: string;
  adapter: string;
  pipeline: string;
  rules: RoutingRule[];
  config: Values;
}

function draftOf(bot: Bot, adapters: Adapter[]): Draft {
  const fields = adapters.find((a) => a.name === bot.adapter)?.spec.config ?? [];
  return {
    name: bot.name,
    description: bot.description ?? '',
    adapter: bot.adapter,
    pipeline: bot.use_pipeline_uuid ?? '',
    rules: bot.pipeline_routing_rules ?? [],
    config: initialValues(fields, bot.adapter_config),
  };
}

export function BotDetail({ uuid }: { uuid: string }) {
  const { t } = useTranslation();
  const bot = useBot(uuid);
  const adapters = useAdapters();
  usePage(t('bots.title'), bot.data?.name);
  if (bot.isError) return <ErrorState error={bot.error} onRetry={() => void bot.refetch()} />;
  if (adapters.isError) return <ErrorState error={adapters.error} onRetry={() => void adapters.refetch()} />;
  if (!bot.data || !adapters.data) return <Spinner />;
  return <BotEditor bot={bot.data} adapters={adapters.data} />;
}

function BotEditor({ bot, adapters }: { bot: Bot; adapters: Adapter[] }) {
  const { t } = useTranslation();
  const client = useQueryClient();
  const [params, setParams] = useSearchParams();
  const mayManage = useCan('resource.manage');
  const saved = useMemo(() => draftOf(bot, adapters), [bot, adapters]);
  const [draft, setDraft] = useState(saved);
  const [busy, setBusy] = useState(false);
  const [errors, setErrors] = useState<{ name?: string; fields: Record<string, FieldError> }>({ fields: {} });
  const [failure, setFailure] = useState<string | null>(null);
  const [deleted, setDeleted] = useState(false);
  const tab = params.get('tab') ?? (mayManage ? 'config' : 'logs');

  const dirty = stable(draft) !== stable(saved);
  // Take over what the server says, unless that would overwrite what is being typed.
  const [base, setBase] = useState(saved);
  useEffect(() => {
    if (base === saved) return;
    if (stable(draft) === stable(base)) setDraft(saved);
    setBase(saved);
  }, [saved, base, draft]);

  const adapter = adapters.find((a) => a.name === draft.adapter);
  const system = useFormContext(bot);

  const save = async () => {
    const fields = adapter?.spec.config ?? [];
    const found = { name: draft.name.trim() ? undefined : t('bots.noName'), fields: validate(fields, draft.config, {}, system) };
    setErrors(found);
    setFailure(null);
    if (found.name || Object.keys(found.fields).length > 0) {
      setFailure(t('form.fixFirst'));
      return;
    }
    setBusy(true);
    try {
      const config = submitValues(fields, draft.config);
      await api.put(`/platform/bots/${bot.uuid}`, {
        name: draft.name.trim(),
        description: draft.description,
        adapter: draft.adapter,
        adapter_config: config,
        ...(draft.pipeline ? { use_pipeline_uuid: draft.pipeline } : {}),
        pipeline_routing_rules: draft.rules,
      });
      setDraft((old) => ({ ...old, name: old.name.trim(), config: initialValues(fields, config) }));
      await client.invalidateQueries({ queryKey: ['bots'] });
      void client.invalidateQueries({ queryKey: ['bot-health', bot.uuid] });
      toast.success(t('common.saved'));
    } catch (error) {
      setFailure(errorText(error));
    } finally {
      setBusy(false);
    }
  };

  return (
    <div className="flex flex-col gap-5">
      <UnsavedGuard dirty={dirty && !deleted} />
      <header className="flex flex-wrap items-center gap-x-4 gap-y-3">
        <AdapterIcon name={bot.adapter} className="size-8" />
        <div className="min-w-0 flex-1">
          <h1 className="flex flex-wrap items-center gap-2 text-xl font-semibold tracking-tight">
            <span className="truncate">{bot.name}</span>
            <HealthBadge uuid={bot.uuid} enabled={bot.enable} />
            {dirty && <Badge tone="warn">{t('common.unsaved')}</Badge>}
          </h1>
          <p className="truncate text-[13px] text-muted">{adapterLabel(adapters, bot.adapter)}</p>
        </div>
        {mayManage && (
          <div className="flex w-full items-center justify-between gap-4 sm:w-auto">
            <EnableSwitch bot={bot} />
            <Button variant="primary" disabled={!dirty} busy={busy} onClick={() => void save()}>{t('common.save')}</Button>
          </div>
        )}
      </header>
      {failure && <Notice tone="bad">{failure}</Notice>}
      <Tabs
        value={tab}
        onValueChange={(next) =>
          setParams((old) => {
            const p = new URLSearchParams(old);
            p.set('tab', next);
            return p;
          }, { replace: true })
        }
      >
        <TabList className="mb-5">
          {mayManage && <Tab value="config">{t('bots.tab.config')}</Tab>}
          <Tab value="logs">{t('bots.tab.logs')}</Tab>
          <Tab value="sessions">{t('bots.tab.sessions')}</Tab>
          <Tab value="deliveries">{t('bots.tab.deliveries')}</Tab>
        </TabList>
        {mayManage && (
          <TabPanel value="config" className="mx-auto flex max-w-4xl flex-col gap-5">
            <Section title={t('bots.basic')}>
              <div className="grid gap-4 sm:grid-cols-2">
                <Field label={t('common.name')} required error={errors.name}>
                  {(control) => <Input {...control} value={draft.name} onChange={(e) => setDraft({ ...draft, name: e.target.value })} />}
                </Field>
                <Field label={t('common.description')}>
                  {(control) => <Input {...control} value={draft.description} onChange={(e) => setDraft({ ...draft, description: e.target.value })} />}
                </Field>
              </div>
            </Section>
            <RoutingCard draft={draft} setDraft={setDraft} />
            <AdapterCard adapters={adapters} adapter={adapter} draft={draft} setDraft={setDraft} system={system} errors={errors.fields} />
            <DangerCard bot={bot} onDelete={() => setDeleted(true)} />
          </TabPanel>
        )}
        <TabPanel value="logs"><BotLogs uuid={bot.uuid} /></TabPanel>
        <TabPanel value="sessions"><BotSessions uuid={bot.uuid} mayManage={mayManage} /></TabPanel>
        <TabPanel value="deliveries"><Deliveries uuid={bot.uuid} /></TabPanel>
      </Tabs>
    </div>
  );
}

export function useFormContext(bot: Bot | null | undefined, extra: Record<string, unknown> = {}) {
  const { system } = useSession();
  return {
    is_wizard: false,
    webhook_url: bot?.adapter_runtime_values?.webhook_full_url ?? null,
    extra_webhook_url: bot?.adapter_runtime_values?.extra_webhook_full_url ?? null,
    outbound_ips: system.outbound_ips ?? [],
    bot_uuid: bot?.uuid,
    adapter_config: bot?.adapter_config,
    box_available: false,
    box_scope_editable: false,
    ...extra,
  };
}

function EnableSwitch({ bot }: { bot: Bot }) {
  const { t } = useTranslation();
  const client = useQueryClient();
  const [shown, setShown] = useState(bot.enable);
  const [busy, setBusy] = useState(false);
  useEffect(() => setShown(bot.enable), [bot.enable]);
  const change = async (enable: boolean) => {
    setShown(enable);
    setBusy(true);
    try {
      // Read, change, write: nothing of the form that is not saved yet goes along.
      const { bot: current } = await api.get<{ bot: Bot }>(`/platform/bots/${bot.uuid}`);
      await api.put(`/platform/bots/${bot.uuid}`, {
        name: current.name,
        description: current.description,
        adapter: current.adapter,
        adapter_config: current.adapter_config ?? {},
        enable,
      });
      await client.invalidateQueries({ queryKey: ['bots'] });
      void client.invalidateQueries({ queryKey: ['bot-health', bot.uuid] });
    } catch (error) {
      setShown(!enable);
      toast.error(errorText(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <label htmlFor="bot-enable-switch" className="flex items-center gap-2 text-sm">
      <Switch id="bot-enable-switch" checked={shown} disabled={busy} onCheckedChange={(next) => void change(next)} />
      {t('bots.enable')}
    </label>
  );
}

function RoutingCard({ draft, setDraft }: { draft: Draft; setDraft: (draft: Draft) => void }) {
  const { t } = useTranslation();
  const pipelines = usePipelines();
  const options = (pipelines.data ?? []).map((p) => ({ value: p.uuid, label: `${p.emoji || '⚙️'} ${p.name}` }));
  return (
    <Section title={t('routing.title')} description={t('routing.hint')}>
      <div className="flex flex-col gap-5">
        <Field
          label={t('routing.default')}
          trailing={draft.pipeline && <Link className="text-[13px] text-accent-text hover:underline" to={`/home/pipelines?id=${draft.pipeline}`}>{t('routing.open')}</Link>}
        >
          {(control) => (
            <Select {...control} className="max-w-md" value={draft.pipeline} onChange={(pipeline) => setDraft({ ...draft, pipeline })} options={options} placeholder={t('routing.choose')} />
          )}
        </Field>
        <RoutingRules rules={draft.rules} onChange={(rules) => setDraft({ ...draft, rules })} pipelines={options} />
      </div>
    </Section>
  );
}

function AdapterCard({ adapters, adapter, draft, setDraft, system, errors }: {
  adapters: Adapter[];
  adapter: Adapter | undefined;
  draft: Draft;
  setDraft: (draft: Draft) => void;
  system: Record<string, unknown>;
  errors: Record<string, FieldError>;
}) {
  const { t } = useTranslation();
  const help = helpLink(adapter?.spec.help_links);
  const change = (name: string) => {
    const fields = adapters.find((a) => a.name === name)?.spec.config ?? [];
    // Entered values stay: most platforms share names such as "token", and going back must not lose them.
    setDraft({ ...draft, adapter: name, config: initialValues(fields, draft.config) });
  };
  return (
    <Section
      title={t('bots.adapter')}
      description={pick(adapter?.description)}
      actions={
        help && (
          <a className={buttonClass('ghost', 'sm')} href={help} target="_blank" rel="noreferrer noopener">
            {t('bots.docs')}
            <ExternalLink className="size-3.5" aria-hidden />
          </a>
        )
      }
    >
      <div className="flex flex-col gap-5">
        <Field label={t('bots.platform')}>
          {(control) => (
            <Select
              {...control}
              className="max-w-md"
              value={draft.adapter}
              onChange={change}
              options={adapters.map((a) => ({ value: a.name, label: pick(a.label) || a.name }))}
            />
          )}
        </Field>
        {adapter ? (
          <DynamicForm fields={adapter.spec.config ?? []} values={draft.config} onChange={(config) => setDraft({ ...draft, config })} system={system} errors={errors} />
        ) : (
          <Notice tone="warn">{t('bots.unknownAdapter', { name: draft.adapter })}</Notice>
        )}
      </div>
    </Section>
  );
}

function DangerCard({ bot, onDelete }: { bot: Bot; onDelete: () => void }) {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const client = useQueryClient();
  const [open, setOpen] = useState(false);
  return (
    <Section title={t('common.danger')} tone="danger">
      <div className="flex flex-wrap items-center justify-between gap-3">
        <p className="text-sm text-muted">{t('bots.deleteHint')}</p>
        <Button variant="danger" onClick={() => setOpen(true)}>
          <Trash2 className="size-4" aria-hidden />
          {t('bots.delete')}
        </Button>
      </div>
      <Confirm
        open={open}
        onOpenChange={setOpen}
        title={t('bots.deleteTitle')}
        description={t('bots.deleteText', { name: bot.name })}
        action={t('common.delete')}
        onConfirm={async () => {
          await api.del(`/platform/bots/${bot.uuid}`);
          onDelete();
          toast.success(t('common.deleted'));
          setTimeout(() => {
            void navigate('/home/bots', { replace: true });
            client.removeQueries({ queryKey: ['bots', bot.uuid] });
            void client.invalidateQueries({ queryKey: ['bots'] });
          });
        }}
      />
    </Section>
  );
}
