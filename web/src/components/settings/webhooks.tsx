import { useState, type FormEvent } from 'react';
import { useTranslation } from 'react-i18next';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Plus, Trash2, Webhook as WebhookIcon } from 'lucide-react';
import { toast } from 'sonner';
import { api } from '@/lib/api';
import { errorText } from '@/lib/errors';
import { useCan } from '@/lib/session';
import { Button, IconButton } from '@/ui/button';
import { EmptyState, ErrorState, Notice, Skeleton } from '@/ui/feedback';
import { Field, Input, Switch } from '@/ui/form';
import { Confirm, Dialog } from '@/ui/overlay';
import { Heading } from './parts';

interface Webhook {
  id: number;
  name: string;
  url: string;
  description: string;
  enabled: boolean;
}

export function Webhooks() {
  const { t } = useTranslation();
  const client = useQueryClient();
  const mayManage = useCan('resource.manage');
  const list = useQuery({ queryKey: ['webhooks'], queryFn: async () => (await api.get<{ webhooks: Webhook[] }>('/webhooks')).webhooks });
  const [creating, setCreating] = useState(false);
  const [deleting, setDeleting] = useState<Webhook | null>(null);
  const reload = () => client.invalidateQueries({ queryKey: ['webhooks'] });

  const toggle = async (hook: Webhook, enabled: boolean) => {
    client.setQueryData<Webhook[]>(['webhooks'], (old) => old?.map((item) => (item.id === hook.id ? { ...item, enabled } : item)));
    try {
      await api.put(`/webhooks/${hook.id}`, { enabled });
    } catch (error) {
      toast.error(errorText(error));
    }
    void reload();
  };

  return (
    <section>
      <Heading
        title={t('webhooks.title')}
        description={t('webhooks.hint')}
        actions={
          mayManage && (
            <Button variant="primary" size="sm" onClick={() => setCreating(true)}>
              <Plus className="size-4" aria-hidden />
              {t('webhooks.create')}
            </Button>
          )
        }
      />
      {list.isPending && <Skeleton className="h-16" />}
      {list.isError && <ErrorState error={list.error} onRetry={() => void list.refetch()} />}
      {list.data?.length === 0 && <EmptyState icon={<WebhookIcon aria-hidden />} title={t('webhooks.none')}>{t('webhooks.noneHint')}</EmptyState>}
      <ul className="divide-y rounded-lg border empty:hidden">
        {list.data?.map((hook) => (
          <li key={hook.id} className="flex flex-wrap items-center gap-x-4 gap-y-1 px-4 py-3">
            <div className="min-w-0 flex-1 basis-56">
              <p className="truncate text-sm font-medium">{hook.name}</p>
              <p className="truncate font-mono text-xs text-muted">{hook.url}</p>
              {hook.description && <p className="truncate text-[13px] text-muted">{hook.description}</p>}
            </div>
            {mayManage && (
              <>
                <Switch aria-label={t('webhooks.enable', { name: hook.name })} checked={hook.enabled} onCheckedChange={(next) => void toggle(hook, next)} />
                <IconButton label={t('webhooks.delete', { name: hook.name })} size="iconSm" onClick={() => setDeleting(hook)}>
                  <Trash2 className="size-4 text-muted" aria-hidden />
                </IconButton>
              </>
            )}
          </li>
        ))}
      </ul>
      {creating && (
        <CreateWebhook
          onClose={() => {
            setCreating(false);
            void reload();
          }}
        />
      )}
      <Confirm
        open={deleting !== null}
        onOpenChange={(open) => !open && setDeleting(null)}
        title={t('webhooks.deleteTitle')}
        description={t('webhooks.deleteText', { name: deleting?.name ?? '' })}
        action={t('common.delete')}
        onConfirm={async () => {
          await api.del(`/webhooks/${deleting?.id}`);
          await reload();
        }}
      />
    </section>
  );
}

function CreateWebhook({ onClose }: { onClose: () => void }) {
  const { t } = useTranslation();
  const [name, setName] = useState('');
  const [url, setUrl] = useState('');
  const [description, setDescription] = useState('');
  const [errors, setErrors] = useState<{ name?: string; url?: string }>({});
  const [failure, setFailure] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    const found = {
      name: name.trim() ? undefined : t('webhooks.noName'),
      url: /^https?:\/\/\S+$/.test(url.trim()) ? undefined : t('models.badUrl'),
    };
    setErrors(found);
    setFailure(null);
    if (found.name || found.url) return;
    setBusy(true);
    try {
      await api.post('/webhooks', { name: name.trim(), url: url.trim(), description, enabled: true });
      toast.success(t('common.saved'));
      onClose();
    } catch (error) {
      setFailure(errorText(error));
      setBusy(false);
    }
  };

  return (
    <Dialog
      open
      onOpenChange={onClose}
      title={t('webhooks.create')}
      footer={
        <>
          <Button onClick={onClose}>{t('common.cancel')}</Button>
          <Button type="submit" form="create-webhook" variant="primary" busy={busy}>{t('common.create')}</Button>
        </>
      }
    >
      <form id="create-webhook" noValidate onSubmit={submit} aria-busy={busy} className="flex flex-col gap-4">
        <Field label={t('common.name')} required error={errors.name}>
          {(control) => <Input {...control} autoFocus value={name} onChange={(e) => setName(e.target.value)} />}
        </Field>
        <Field label={t('webhooks.url')} required error={errors.url} hint={t('webhooks.urlHint')}>
          {(control) => <Input {...control} type="url" inputMode="url" spellCheck={false} placeholder="https://" value={url} onChange={(e) => setUrl(e.target.value)} />}
        </Field>
        <Field label={t('common.description')}>
          {(control) => <Input {...control} value={description} onChange={(e) => setDescription(e.target.value)} />}
        </Field>
        {failure && <Notice tone="bad">{failure}</Notice>}
      </form>
    </Dialog>
  );
}
