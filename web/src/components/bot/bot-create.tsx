import { useState, type FormEvent } from 'react';
import { useTranslation } from 'react-i18next';
import { useNavigate } from 'react-router';
import { useQueryClient } from '@tanstack/react-query';
import { toast } from 'sonner';
import { usePage } from '@/components/crumbs';
import { api } from '@/lib/api';
import { errorText } from '@/lib/errors';
import { initialValues, submitValues } from '@/lib/form-values';
import { useAdapters } from '@/lib/queries';
import { useQuotaReason } from '@/lib/quota';
import { Button } from '@/ui/button';
import { ErrorState, Notice, Section, Spinner } from '@/ui/feedback';
import { Field, Input } from '@/ui/form';
import { GatedButton } from '@/ui/overlay';
import { AdapterPicker } from './adapter-picker';

export function BotCreate() {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const client = useQueryClient();
  const adapters = useAdapters();
  const reason = useQuotaReason('bots');
  const [name, setName] = useState('');
  const [description, setDescription] = useState('');
  const [adapter, setAdapter] = useState('');
  const [errors, setErrors] = useState<{ name?: string; adapter?: string }>({});
  const [failure, setFailure] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  usePage(t('bots.title'), t('bots.create'));

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    const found = {
      name: name.trim() ? undefined : t('bots.noName'),
      adapter: adapter ? undefined : t('bots.noAdapter'),
    };
    setErrors(found);
    setFailure(null);
    if (found.name || found.adapter) return;
    setBusy(true);
    try {
      const fields = adapters.data?.find((a) => a.name === adapter)?.spec.config ?? [];
      const { uuid } = await api.post<{ uuid: string }>('/platform/bots', {
        name: name.trim(),
        description,
        adapter,
        adapter_config: submitValues(fields, initialValues(fields, {})),
      });
      toast.success(t('bots.created'));
      await client.invalidateQueries({ queryKey: ['bots'] });
      void navigate(`/home/bots?id=${uuid}`, { replace: true });
    } catch (error) {
      setFailure(errorText(error));
      setBusy(false);
    }
  };

  return (
    <form noValidate onSubmit={submit} aria-busy={busy} className="mx-auto flex max-w-4xl flex-col gap-5">
      <div className="flex flex-wrap items-center justify-between gap-3">
        <h1 className="text-xl font-semibold tracking-tight">{t('bots.create')}</h1>
        <div className="flex gap-2">
          <Button onClick={() => void navigate('/home/bots')}>{t('common.cancel')}</Button>
          <GatedButton type="submit" reason={reason} label={t('common.create')} variant="primary" busy={busy}>
            {t('common.create')}
          </GatedButton>
        </div>
      </div>
      {failure && <Notice tone="bad">{failure}</Notice>}
      <Section title={t('bots.basic')}>
        <div className="grid gap-4 sm:grid-cols-2">
          <Field label={t('common.name')} required error={errors.name}>
            {(control) => <Input {...control} autoFocus value={name} onChange={(e) => setName(e.target.value)} />}
          </Field>
          <Field label={t('common.description')}>
            {(control) => <Input {...control} value={description} onChange={(e) => setDescription(e.target.value)} />}
          </Field>
        </div>
      </Section>
      <Section title={t('bots.platform')} description={t('bots.platformHint')}>
        {errors.adapter && <Notice tone="bad" className="mb-4">{errors.adapter}</Notice>}
        {adapters.isPending && <Spinner />}
        {adapters.isError && <ErrorState error={adapters.error} onRetry={() => void adapters.refetch()} />}
        {adapters.data && <AdapterPicker adapters={adapters.data} value={adapter} onChange={setAdapter} label={t('bots.platform')} />}
      </Section>
    </form>
  );
}
