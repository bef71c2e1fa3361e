import { useState, type FormEvent } from 'react';
import { useTranslation } from 'react-i18next';
import { useNavigate } from 'react-router';
import { useQueryClient } from '@tanstack/react-query';
import { toast } from 'sonner';
import { usePage } from '@/components/crumbs';
import { api } from '@/lib/api';
import { errorText } from '@/lib/errors';
import { useQuotaReason } from '@/lib/quota';
import { Button } from '@/ui/button';
import { Notice, Section } from '@/ui/feedback';
import { GatedButton } from '@/ui/overlay';
import { BasicFields, DEFAULT_EMOJI, type Basics } from './basic-fields';

export function PipelineCreate() {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const client = useQueryClient();
  const reason = useQuotaReason('pipelines');
  const [value, setValue] = useState<Basics>({ name: '', emoji: DEFAULT_EMOJI, description: '' });
  const [error, setError] = useState<string | undefined>();
  const [failure, setFailure] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  usePage(t('pipelines.title'), t('pipelines.create'));

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setFailure(null);
    setError(value.name.trim() ? undefined : t('pipelines.noName'));
    if (!value.name.trim()) return;
    setBusy(true);
    try {
      const { uuid } = await api.post<{ uuid: string }>('/pipelines', {
        name: value.name.trim(),
        description: value.description,
        emoji: value.emoji || DEFAULT_EMOJI,
      });
      toast.success(t('pipelines.created'));
      await client.invalidateQueries({ queryKey: ['pipelines'] });
      void navigate(`/home/pipelines?id=${uuid}`, { replace: true });
    } catch (cause) {
      setFailure(errorText(cause));
      setBusy(false);
    }
  };

  return (
    <form noValidate onSubmit={submit} aria-busy={busy} className="mx-auto flex max-w-2xl flex-col gap-5">
      <h1 className="text-xl font-semibold tracking-tight">{t('pipelines.create')}</h1>
      {failure && <Notice tone="bad">{failure}</Notice>}
      <Section title={t('bots.basic')} description={t('pipelines.createHint')}>
        <BasicFields value={value} onChange={setValue} error={error} autoFocus />
      </Section>
      <div className="flex justify-end gap-2">
        <Button onClick={() => void navigate('/home/pipelines')}>{t('common.cancel')}</Button>
        <GatedButton type="submit" reason={reason} label={t('common.create')} variant="primary" busy={busy}>{t('common.create')}</GatedButton>
      </div>
    </form>
  );
}
