import { useCallback, useEffect, useMemo, useRef, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { useNavigate } from 'react-router';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Check, PartyPopper } from 'lucide-react';
import { toast } from 'sonner';
import { BotLogs } from '@/components/bot/bot-logs';
import { AdapterPicker } from '@/components/bot/adapter-picker';
import { useFormContext } from '@/components/bot/bot-detail';
import { Wordmark } from '@/components/brand';
import { DynamicForm } from '@/components/form/dynamic-form';
import { LanguageMenu, ThemeToggle } from '@/components/preferences';
import { SettingsHost } from '@/components/settings/settings-host';
import { WizardModel } from '@/components/wizard-model';
import { useTitle } from '@/components/title';
import { ApiError, api } from '@/lib/api';
import { errorText } from '@/lib/errors';
import { asFallback, initialValues, submitValues, validate, type FieldError } from '@/lib/form-values';
import { pick } from '@/lib/i18n';
import { offeredRunners } from '@/lib/offered';
import { adapterLabel } from '@/lib/platform';
import { useAdapters, usePipelineMetadata } from '@/lib/queries';
import { useSession } from '@/lib/session';
import type { Bot, Pipeline, Values, WizardProgress } from '@/lib/types';
import { cn } from '@/lib/utils';
import { Button } from '@/ui/button';
import { ErrorState, Notice, Section, Spinner } from '@/ui/feedback';
import { Confirm } from '@/ui/overlay';

const STEPS = ['platform', 'bot', 'engine', 'done'] as const;

export function Component() {
  const { t } = useTranslation();
  const { system } = useSession();
  useTitle(t('wizard.title'));
  const [restored, setRestored] = useState<{ progress: WizardProgress; bot: Bot | null } | null>(null);

  // Progress counts only as long as the bot that it speaks of is still there.
  useEffect(() => {
    const progress = system.wizard_progress ?? {};
    if (!progress.created_bot_uuid) {
      setRestored({ progress: { selected_adapter: progress.selected_adapter }, bot: null });
      return;
    }
    api.get<{ bot: Bot }>(`/platform/bots/${progress.created_bot_uuid}`).then(
      ({ bot }) => setRestored({ progress: { ...progress, step: Math.min(progress.step ?? 0, 2) }, bot }),
      () => setRestored({ progress: {}, bot: null }),
    );
    // Read once: later changes of the session are this page's own.
  }, []);

  if (!restored) return <Spinner className="h-dvh" />;
  return <Wizard start={restored.progress} startBot={restored.bot} />;
}

function Wizard({ start, startBot }: { start: WizardProgress; startBot: Bot | null }) {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const client = useQueryClient();
  const { system, refreshSystem } = useSession();
  const [step, setStep] = useState(start.step ?? 0);
  const [adapter, setAdapter] = useState(start.selected_adapter ?? '');
  const [bot, setBot] = useState<Bot | null>(startBot);
  const [saved, setSaved] = useState(start.bot_saved ?? false);
  const [runner, setRunner] = useState(start.selected_runner ?? '');
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<string | null>(null);
  const [skipping, setSkipping] = useState(false);

  useEffect(() => {
    window.scrollTo(0, 0);
  }, [step]);
  const first = useRef(true);
  useEffect(() => {
    if (first.current) {
      first.current = false;
      return;
    }
    if (step > 2) return;
    // Only a convenience for the next visit: a failure is not worth a word.
    api
      .put('/system/wizard/progress', { step, selected_adapter: adapter || null, created_bot_uuid: bot?.uuid ?? null, bot_saved: saved, selected_runner: runner || null })
      .catch(() => {});
  }, [step, adapter, bot?.uuid, saved, runner]);

  const attempt = async (run: () => Promise<void>) => {
    setBusy(true);
    setFailure(null);
    try {
      await run();
    } catch (error) {
      setFailure(errorText(error));
    } finally {
      setBusy(false);
    }
  };

  const skip = async () => {
    if (system.wizard_status === 'none') {
      await api.post('/system/wizard/completed', { status: 'skipped' });
      await refreshSystem();
    }
    void navigate('/home', { replace: true });
  };
  const finish = () =>
    attempt(async () => {
      await api.post('/system/wizard/completed', { status: 'completed' });
      await refreshSystem();
      await client.invalidateQueries();
      void navigate(bot ? `/home/bots?id=${bot.uuid}` : '/home/bots', { replace: true });
    });

  return (
    <div className="flex min-h-dvh flex-col">
      <header className="flex items-center gap-2 border-b bg-surface px-4 py-2.5 sm:px-6">
        <Wordmark />
        <span className="ml-auto flex items-center gap-1">
          {step < 3 && <Button variant="ghost" size="sm" onClick={() => setSkipping(true)}>{t('wizard.skip')}</Button>}
          <ThemeToggle />
          <LanguageMenu />
        </span>
      </header>
      <main className="mx-auto flex w-full max-w-5xl flex-1 flex-col gap-6 px-4 py-6 sm:px-6">
        <Steps current={step} />
        {failure && <Notice tone="bad">{failure}</Notice>}
        {step === 0 && (
          <PlatformStep
            adapter={adapter}
            onChange={setAdapter}
            busy={busy}
            existing={bot}
            onNext={(fresh) => attempt(async () => {
              if (fresh) {
                setBot(fresh);
                setSaved(false);
              }
              setStep(1);
            })}
            onFailure={setFailure}
          />
        )}
        {step === 1 && bot && <BotStep bot={bot} saved={saved} onSaved={(next) => { setBot(next); setSaved(true); }} onBack={() => setStep(0)} onNext={() => setStep(2)} />}
        {step === 2 && bot && <EngineStep bot={bot} runner={runner} onRunner={setRunner} onBack={() => setStep(1)} onDone={() => setStep(3)} />}
        {step === 3 && (
          <div className="flex flex-1 flex-col items-center justify-center gap-4 py-16 text-center">
            <span className="grid size-16 place-items-center rounded-full bg-accent-soft text-accent-text"><PartyPopper className="size-8" aria-hidden /></span>
            <h1 className="text-2xl font-semibold tracking-tight">{t('wizard.doneTitle')}</h1>
            <p className="max-w-md text-muted">{t('wizard.doneText', { name: bot?.name ?? '' })}</p>
            <Button variant="primary" busy={busy} onClick={() => void finish()}>{t('wizard.toBot')}</Button>
          </div>
        )}
      </main>
      <Confirm open={skipping} onOpenChange={setSkipping} danger={false} title={t('wizard.skipTitle')} description={t('wizard.skipText')} action={t('wizard.skip')} onConfirm={skip} />
      <SettingsHost />
    </div>
  );
}

function Steps({ current }: { current: number }) {
  const { t } = useTranslation();
  return (
    <ol aria-label={t('wizard.steps')} className="flex items-center gap-2 sm:gap-3">
      {STEPS.map((name, index) => (
        <li key={name} aria-current={index === current ? 'step' : undefined} className={cn('flex items-center gap-2 text-sm sm:gap-3', index > current && 'text-muted')}>
          {index > 0 && <span className={cn('h-px w-4 sm:w-10', index <= current ? 'bg-accent' : 'bg-line-strong')} aria-hidden />}
          <span
            className={cn(
              'grid size-6 shrink-0 place-items-center rounded-full border text-xs font-medium',
              index < current && 'border-accent bg-accent text-on-accent',
              index === current && 'border-accent text-accent-text',
            )}
            aria-hidden
          >
            {index < current ? <Check className="size-3.5" /> : index + 1}
          </span>
          <span className={cn('whitespace-nowrap', index === current ? 'font-medium' : 'hidden md:inline')}>{t(`wizard.step.${name}`)}</span>
        </li>
      ))}
    </ol>
  );
}

function PlatformStep({ adapter, onChange, busy, existing, onNext, onFailure }: {
  adapter: string;
  onChange: (name: string) => void;
  busy: boolean;
  existing: Bot | null;
  onNext: (bot: Bot | null) => void;
  onFailure: (text: string) => void;
}) {
  const { t } = useTranslation();
  const adapters = useAdapters();
  const [creating, setCreating] = useState(false);
  const next = async () => {
    if (existing && existing.adapter === adapter) return onNext(null);
    const found = adapters.data?.find((a) => a.name === adapter);
    if (!found) return;
    setCreating(true);
    try {
      const { uuid } = await api.post<{ uuid: string }>('/platform/bots', {
        name: pick(found.label) || found.name,
        description: '',
        adapter,
        adapter_config: submitValues(found.spec.config ?? [], initialValues(found.spec.config ?? [], {})),
        enable: false,
      });
      const { bot } = await api.get<{ bot: Bot }>(`/platform/bots/${uuid}`);
      // A platform chosen anew replaces the bot of the first choice, which nobody has configured yet.
      if (existing && !existing.enable) await api.del(`/platform/bots/${existing.uuid}`).catch(() => {});
      onNext(bot);
    } catch (error) {
      onFailure(errorText(error));
    } finally {
      setCreating(false);
    }
  };
  return (
    <>
      <div>
        <h1 className="text-xl font-semibold tracking-tight">{t('wizard.platformTitle')}</h1>
        <p className="mt-1 text-sm text-muted">{t('wizard.platformText')}</p>
      </div>
      {adapters.isPending && <Spinner />}
      {adapters.isError && <ErrorState error={adapters.error} onRetry={() => void adapters.refetch()} />}
      {adapters.data && <AdapterPicker adapters={adapters.data} value={adapter} onChange={onChange} label={t('bots.platform')} />}
      <div className="sticky bottom-0 -mx-4 mt-auto flex justify-end border-t bg-bg px-4 py-3 sm:-mx-6 sm:px-6">
        <Button variant="primary" disabled={!adapter} busy={busy || creating} onClick={() => void next()}>{t('wizard.createBot')}</Button>
      </div>
    </>
  );
}

function BotStep({ bot, saved, onSaved, onBack, onNext }: { bot: Bot; saved: boolean; onSaved: (bot: Bot) => void; onBack: () => void; onNext: () => void }) {
  const { t } = useTranslation();
  const adapters = useAdapters();
  const fields = useMemo(() => adapters.data?.find((a) => a.name === bot.adapter)?.spec.config ?? [], [adapters.data, bot.adapter]);
  const [values, setValues] = useState<Values | null>(null);
  const [errors, setErrors] = useState<Record<string, FieldError>>({});
  const [failure, setFailure] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const system = useFormContext(bot, { is_wizard: true });
  const current = values ?? initialValues(fields, bot.adapter_config);

  const save = async () => {
    const found = validate(fields, current, {}, system);
    setErrors(found);
    setFailure(null);
    if (Object.keys(found).length > 0) return;
    setBusy(true);
    try {
      await api.put(`/platform/bots/${bot.uuid}`, {
        name: bot.name,
        description: bot.description ?? '',
        adapter: bot.adapter,
        adapter_config: submitValues(fields, current),
        enable: true,
      });
      const fresh = await api.get<{ bot: Bot }>(`/platform/bots/${bot.uuid}`);
      onSaved(fresh.bot);
      toast.success(t('wizard.botSaved'));
    } catch (error) {
      setFailure(errorText(error));
    } finally {
      setBusy(false);
    }
  };

  return (
    <>
      <div>
        <h1 className="text-xl font-semibold tracking-tight">{t('wizard.botTitle', { name: adapterLabel(adapters.data, bot.adapter) })}</h1>
        <p className="mt-1 text-sm text-muted">{t('wizard.botText')}</p>
      </div>
      <div className="grid items-start gap-5 lg:grid-cols-2">
        <Section title={t('wizard.connection')}>
          {adapters.isPending ? (
            <Spinner />
          ) : (
            <div className="flex flex-col gap-5">
              <DynamicForm fields={fields} values={current} onChange={setValues} system={system} errors={errors} />
              {failure && <Notice tone="bad">{failure}</Notice>}
              <Button variant={saved ? 'secondary' : 'primary'} className="self-start" busy={busy} onClick={() => void save()}>{t('wizard.saveBot')}</Button>
              {saved && <Notice tone="ok">{t('wizard.botRuns')}</Notice>}
            </div>
          )}
        </Section>
        <Section title={t('bots.tab.logs')} description={t('wizard.logsHint')}>
          <BotLogs uuid={bot.uuid} compact />
        </Section>
      </div>
      <div className="sticky bottom-0 -mx-4 mt-auto flex justify-between border-t bg-bg px-4 py-3 sm:-mx-6 sm:px-6">
        <Button onClick={onBack}>{t('common.back')}</Button>
        <Button variant="primary" disabled={!saved} onClick={onNext}>{t('common.next')}</Button>
      </div>
    </>
  );
}

function EngineStep({ bot, runner, onRunner, onBack, onDone }: { bot: Bot; runner: string; onRunner: (name: string) => void; onBack: () => void; onDone: () => void }) {
  const { t } = useTranslation();
  const client = useQueryClient();
  const metadata = usePipelineMetadata();
  const [values, setValues] = useState<Record<string, Values>>({});
  const [errors, setErrors] = useState<Record<string, FieldError>>({});
  const [failure, setFailure] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  // The pipeline of an attempt that failed half-way is used again, so that trying twice does not leave two.
  const made = useRef<string | null>(null);
  const system = useFormContext(bot, { is_wizard: true });
  const template = useQuery({
    queryKey: ['wizard-template'],
    queryFn: async () => (await api.get<{ pipelines: Pipeline[] }>('/pipelines')).pipelines.find((p) => p.is_default)?.config?.ai ?? {},
  });
  const ai = metadata.data?.find((doc) => doc.name === 'ai');
  const all = ai?.stages.find((s) => s.name === 'runner')?.config.find((f) => f.name === 'runner')?.options ?? [];
  const options = offeredRunners(all, runner);
  const chosen = runner || (options.length === 1 ? (options[0]?.name ?? '') : '');
  const stage = ai?.stages.find((s) => s.name === chosen);
  const current = values[chosen] ?? initialValues(stage?.config ?? [], template.data?.[chosen]);
  const set = useCallback((next: Values) => setValues((old) => ({ ...old, [chosen]: next })), [chosen]);

  const finish = async () => {
    const found = validate(stage?.config ?? [], current, {}, system);
    setErrors(found);
    setFailure(null);
    if (Object.keys(found).length > 0) return;
    setBusy(true);
    try {
      if (!made.current) {
        made.current = (await api.post<{ uuid: string }>('/pipelines', { name: `${bot.name} Pipeline`, description: '', config: {} })).uuid;
      }
      const { pipeline } = await api.get<{ pipeline: Pipeline }>(`/pipelines/${made.current}`);
      const config = structuredClone(pipeline.config);
      config.ai = {
        ...(config.ai ?? {}),
        runner: { ...(config.ai?.runner ?? {}), runner: chosen },
        [chosen]: { ...(config.ai?.[chosen] ?? {}), ...submitValues(stage?.config ?? [], current) },
      };
      await api.put(`/pipelines/${made.current}`, { name: pipeline.name, description: pipeline.description, config });
      await api.put(`/platform/bots/${bot.uuid}`, { use_pipeline_uuid: made.current });
      void client.invalidateQueries();
      onDone();
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) made.current = null;
      setFailure(errorText(error));
    } finally {
      setBusy(false);
    }
  };

  const isLocal = chosen === 'local-agent';
  return (
    <>
      <div>
        <h1 className="text-xl font-semibold tracking-tight">{t('wizard.engineTitle')}</h1>
        <p className="mt-1 text-sm text-muted">{t('wizard.engineText')}</p>
      </div>
      {metadata.isError && <ErrorState error={metadata.error} onRetry={() => void metadata.refetch()} />}
      {(metadata.isPending || template.isPending) && <Spinner />}
      {metadata.data && !template.isPending && (
        <div className={cn('grid items-start gap-5', chosen && options.length > 1 && 'lg:grid-cols-[18rem_1fr]')}>
          <div role="radiogroup" aria-label={t('wizard.step.engine')} className={cn('grid gap-2', options.length < 2 && 'hidden', !chosen && 'sm:grid-cols-2 lg:grid-cols-3')}>
            {options.map((option) => (
              <button
                key={option.name}
                type="button"
                role="radio"
                aria-checked={option.name === chosen}
                data-runner={option.name}
                onClick={() => {
                  setErrors({});
                  onRunner(option.name);
                }}
                className={cn(
                  'rounded-lg border px-4 py-3 text-left text-sm font-medium transition-colors',
                  option.name === chosen ? 'border-accent bg-accent-soft text-accent-text' : 'bg-surface hover:bg-sunken',
                )}
              >
                {pick(option.label) || option.name}
              </button>
            ))}
          </div>
          {chosen && (
            <div className="flex min-w-0 flex-col gap-5">
              {isLocal && (
                <WizardModel
                  onMade={(uuid) => {
                    if (!asFallback(current.model).primary) set({ ...current, model: { ...asFallback(current.model), primary: uuid } });
                  }}
                />
              )}
              {stage && (
                <Section title={pick(stage.label) || stage.name} description={pick(stage.description) || undefined}>
                  <DynamicForm fields={stage.config ?? []} values={current} onChange={set} system={system} errors={errors} />
                </Section>
              )}
            </div>
          )}
        </div>
      )}
      {failure && <Notice tone="bad">{failure}</Notice>}
      <div className="sticky bottom-0 -mx-4 mt-auto flex justify-between border-t bg-bg px-4 py-3 sm:-mx-6 sm:px-6">
        <Button onClick={onBack}>{t('common.back')}</Button>
        <Button variant="primary" disabled={!chosen} busy={busy} onClick={() => void finish()}>{t('wizard.finish')}</Button>
      </div>
    </>
  );
}
