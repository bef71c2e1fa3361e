import { useEffect, useMemo, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { useNavigate, useSearchParams } from 'react-router';
import { useQueryClient } from '@tanstack/react-query';
import { Copy, Trash2 } from 'lucide-react';
import { toast } from 'sonner';
import { usePage } from '@/components/crumbs';
import { UnsavedGuard } from '@/components/unsaved-guard';
import { DynamicForm } from '@/components/form/dynamic-form';
import { api } from '@/lib/api';
import { errorText } from '@/lib/errors';
import { validate, type FieldError } from '@/lib/form-values';
import { pick } from '@/lib/i18n';
import { SECTIONS, initialConfig, setStage, submitConfig, visibleStages, type PipelineConfig } from '@/lib/pipeline-config';
import { usePipeline, usePipelineMetadata } from '@/lib/queries';
import { useQuotaReason } from '@/lib/quota';
import { useCan, useSession } from '@/lib/session';
import type { ConfigDoc, Pipeline } from '@/lib/types';
import { cn, stable } from '@/lib/utils';
import { Button } from '@/ui/button';
import { Badge, Dot, ErrorState, Notice, Section, Spinner, type Tone } from '@/ui/feedback';
import { Confirm, GatedButton } from '@/ui/overlay';
import { Tab, TabList, TabPanel, Tabs } from '@/ui/tabs';
import { BasicFields, DEFAULT_EMOJI, type Basics } from './basic-fields';
import { DebugChat } from './debug-chat';
import { PipelineDashboard } from './pipeline-dashboard';
import type { SocketState } from '@/lib/chat-socket';

interface Draft {
  basics: Basics;
  config: PipelineConfig;
}

const SOCKET_TONE: Record<SocketState, Tone> = { open: 'ok', connecting: 'warn', waiting: 'warn', closed: 'bad' };

export function PipelineDetail({ uuid }: { uuid: string }) {
  const { t } = useTranslation();
  const pipeline = usePipeline(uuid);
  const metadata = usePipelineMetadata();
  usePage(t('pipelines.title'), pipeline.data?.name);
  if (pipeline.isError) return <ErrorState error={pipeline.error} onRetry={() => void pipeline.refetch()} />;
  if (metadata.isError) return <ErrorState error={metadata.error} onRetry={() => void metadata.refetch()} />;
  if (!pipeline.data || !metadata.data) return <Spinner />;
  return <PipelineEditor pipeline={pipeline.data} docs={metadata.data} />;
}

function PipelineEditor({ pipeline, docs }: { pipeline: Pipeline; docs: ConfigDoc[] }) {
  const { t } = useTranslation();
  const client = useQueryClient();
  const [params, setParams] = useSearchParams();
  const { system } = useSession();
  const mayManage = useCan('resource.manage');
  const mayRun = useCan('runtime.operate');
  const saved = useMemo<Draft>(
    () => ({
      basics: { name: pipeline.name, emoji: pipeline.emoji || DEFAULT_EMOJI, description: pipeline.description ?? '' },
      config: initialConfig(docs, pipeline.config),
    }),
    [pipeline, docs],
  );
  const [draft, setDraft] = useState(saved);
  const [base, setBase] = useState(saved);
  const [busy, setBusy] = useState(false);
  const [nameError, setNameError] = useState<string | undefined>();
  const [failure, setFailure] = useState<string | null>(null);
  const [errors, setErrors] = useState<Record<string, Record<string, FieldError>>>({});
  const [deleted, setDeleted] = useState(false);
  const [socket, setSocket] = useState<SocketState>('connecting');
  const tab = params.get('tab') ?? 'config';
  const dirty = stable(draft) !== stable(saved);

  useEffect(() => {
    if (base === saved) return;
    if (stable(draft) === stable(base)) setDraft(saved);
    setBase(saved);
  }, [saved, base, draft]);

  const context = {
    is_wizard: false,
    pipeline_id: pipeline.uuid,
    outbound_ips: system.outbound_ips ?? [],
    box_available: false,
    box_scope_editable: false,
  };

  const save = async () => {
    setFailure(null);
    setNameError(draft.basics.name.trim() ? undefined : t('pipelines.noName'));
    const found: Record<string, Record<string, FieldError>> = {};
    for (const doc of docs) {
      for (const stage of visibleStages(doc, draft.config)) {
        // An empty list or an unset key is a legal state of a pipeline; only what cannot be read is refused.
        const all = validate(stage.config ?? [], draft.config[doc.name]?.[stage.name] ?? {}, {}, context);
        const hard = Object.fromEntries(Object.entries(all).filter(([, error]) => error !== 'required'));
        if (Object.keys(hard).length > 0) found[`${doc.name}.${stage.name}`] = hard;
      }
    }
    setErrors(found);
    if (!draft.basics.name.trim() || Object.keys(found).length > 0) {
      setFailure(t('form.fixFirst'));
      return;
    }
    setBusy(true);
    try {
      const config = submitConfig(docs, draft.config);
      const basics = { ...draft.basics, name: draft.basics.name.trim() };
      await api.put(`/pipelines/${pipeline.uuid}`, { ...basics, config });
      setDraft({ basics, config: initialConfig(docs, config) });
      await client.invalidateQueries({ queryKey: ['pipelines'] });
      toast.success(t('common.saved'));
    } catch (error) {
      setFailure(errorText(error));
    } finally {
      setBusy(false);
    }
  };

  return (
    <div className="flex min-h-full flex-col gap-5">
      <UnsavedGuard dirty={dirty && !deleted} />
      <header className="flex flex-wrap items-center gap-x-4 gap-y-3">
        <span className="text-3xl leading-none" aria-hidden>{pipeline.emoji || DEFAULT_EMOJI}</span>
        <div className="min-w-0 flex-1">
          <h1 className="flex flex-wrap items-center gap-2 text-xl font-semibold tracking-tight">
            <span className="truncate">{pipeline.name}</span>
            {pipeline.is_default && <Badge tone="accent">{t('pipelines.default')}</Badge>}
            {dirty && <Badge tone="warn">{t('common.unsaved')}</Badge>}
          </h1>
          <p className="truncate text-[13px] text-muted">{pipeline.description || t('pipelines.noDescription')}</p>
        </div>
        {mayManage && <Button variant="primary" disabled={!dirty} busy={busy} onClick={() => void save()}>{t('common.save')}</Button>}
      </header>
      {failure && <Notice tone="bad">{failure}</Notice>}
      <Tabs
        value={tab}
        className="flex min-h-0 flex-1 flex-col"
        onValueChange={(next) =>
          setParams((old) => {
            const p = new URLSearchParams(old);
            p.set('tab', next);
            return p;
          }, { replace: true })
        }
      >
        <TabList className="mb-5 shrink-0">
          <Tab value="config">{t('pipelines.tab.config')}</Tab>
          {mayRun && (
            <Tab value="chat">
              {t('pipelines.tab.chat')}
              {tab === 'chat' && (
                <>
                  <Dot tone={SOCKET_TONE[socket]} />
                  <span className="sr-only">{t(`chat.socket.${socket}`)}</span>
                </>
              )}
            </Tab>
          )}
          <Tab value="dashboard">{t('pipelines.tab.dashboard')}</Tab>
        </TabList>
        <TabPanel value="config">
          <ConfigForm pipeline={pipeline} docs={docs} draft={draft} setDraft={setDraft} nameError={nameError} errors={errors} context={context} mayManage={mayManage} onDelete={() => setDeleted(true)} />
        </TabPanel>
        {mayRun && (
          <TabPanel value="chat" className="flex min-h-0 flex-1 flex-col">
            {dirty && <Notice tone="warn" className="mb-3">{t('chat.unsavedConfig')}</Notice>}
            <DebugChat pipeline={pipeline.uuid} onState={setSocket} />
          </TabPanel>
        )}
        <TabPanel value="dashboard"><PipelineDashboard uuid={pipeline.uuid} /></TabPanel>
      </Tabs>
    </div>
  );
}

function ConfigForm({ pipeline, docs, draft, setDraft, nameError, errors, context, mayManage, onDelete }: {
  pipeline: Pipeline;
  docs: ConfigDoc[];
  draft: Draft;
  setDraft: (draft: Draft) => void;
  nameError: string | undefined;
  errors: Record<string, Record<string, FieldError>>;
  context: Record<string, unknown>;
  mayManage: boolean;
  onDelete: () => void;
}) {
  const { t } = useTranslation();
  const [section, setSection] = useState<string>('ai');
  const ordered = SECTIONS.map((name) => docs.find((doc) => doc.name === name)).filter((doc): doc is ConfigDoc => doc !== undefined);
  const nav = [{ name: 'basic', label: t('pipelines.section.basic') }, ...ordered.map((doc) => ({ name: doc.name, label: t(`pipelines.section.${doc.name}`) }))];
  const doc = ordered.find((item) => item.name === section);
  const failing = (name: string) => (name === 'basic' ? Boolean(nameError) : Object.keys(errors).some((key) => key.startsWith(`${name}.`)));
  return (
    <div className="grid items-start gap-5 lg:grid-cols-[11rem_1fr]">
      <nav aria-label={t('pipelines.sections')} className="flex gap-1 overflow-x-auto lg:sticky lg:top-0 lg:flex-col">
        {nav.map((item) => (
          <button
            key={item.name}
            type="button"
            aria-current={item.name === section ? 'true' : undefined}
            onClick={() => setSection(item.name)}
            className={cn(
              'flex items-center justify-between gap-2 rounded-md px-3 py-1.5 text-left text-sm whitespace-nowrap',
              item.name === section ? 'bg-accent-soft font-medium text-accent-text' : 'hover:bg-sunken',
            )}
          >
            {item.label}
            {failing(item.name) && <Dot tone="bad" />}
          </button>
        ))}
      </nav>
      <div className="flex min-w-0 max-w-4xl flex-col gap-5">
        {section === 'basic' && (
          <>
            <Section title={t('pipelines.section.basic')}>
              <BasicFields value={draft.basics} onChange={(basics) => setDraft({ ...draft, basics })} error={nameError} disabled={!mayManage} />
            </Section>
            {mayManage && <PipelineActions pipeline={pipeline} onDelete={onDelete} />}
          </>
        )}
        {doc &&
          visibleStages(doc, draft.config).map((stage) => (
            <Section key={stage.name} title={pick(stage.label) || stage.name} description={pick(stage.description) || undefined}>
              <DynamicForm
                fields={stage.config ?? []}
                values={draft.config[doc.name]?.[stage.name] ?? {}}
                onChange={(values) => setDraft({ ...draft, config: setStage(draft.config, doc.name, stage.name, values) })}
                system={context}
                errors={errors[`${doc.name}.${stage.name}`]}
                readOnly={!mayManage}
              />
            </Section>
          ))}
      </div>
    </div>
  );
}

function PipelineActions({ pipeline, onDelete }: { pipeline: Pipeline; onDelete: () => void }) {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const client = useQueryClient();
  const reason = useQuotaReason('pipelines');
  const [copying, setCopying] = useState(false);
  const [deleting, setDeleting] = useState(false);
  return (
    <>
      <Section title={t('pipelines.copyTitle')} description={t('pipelines.copyHint')}>
        <GatedButton reason={reason} label={t('pipelines.copy')} onClick={() => setCopying(true)}>
          <Copy className="size-4" aria-hidden />
          {t('pipelines.copy')}
        </GatedButton>
      </Section>
      <Section title={t('common.danger')} tone="danger">
        <div className="flex flex-wrap items-center justify-between gap-3">
          <p className="text-sm text-muted">{t(pipeline.is_default ? 'pipelines.defaultStays' : 'pipelines.deleteHint')}</p>
          {!pipeline.is_default && (
            <Button variant="danger" onClick={() => setDeleting(true)}>
              <Trash2 className="size-4" aria-hidden />
              {t('pipelines.delete')}
            </Button>
          )}
        </div>
      </Section>
      <Confirm
        open={copying}
        onOpenChange={setCopying}
        danger={false}
        title={t('pipelines.copyTitle')}
        description={t('pipelines.copyText', { name: pipeline.name })}
        action={t('pipelines.copy')}
        onConfirm={async () => {
          const { uuid } = await api.post<{ uuid: string }>(`/pipelines/${pipeline.uuid}/copy`);
          await client.invalidateQueries({ queryKey: ['pipelines'] });
          toast.success(t('pipelines.copied'));
          void navigate(`/home/pipelines?id=${uuid}`);
        }}
      />
      <Confirm
        open={deleting}
        onOpenChange={setDeleting}
        title={t('pipelines.deleteTitle')}
        description={t('pipelines.deleteText', { name: pipeline.name })}
        action={t('common.delete')}
        onConfirm={async () => {
          await api.del(`/pipelines/${pipeline.uuid}`);
          onDelete();
          toast.success(t('common.deleted'));
          setTimeout(() => {
            void navigate('/home/pipelines', { replace: true });
            client.removeQueries({ queryKey: ['pipelines', pipeline.uuid] });
            void client.invalidateQueries({ queryKey: ['pipelines'] });
          });
        }}
      />
    </>
  );
}
