import { useState, type FormEvent } from 'react';
import { useTranslation } from 'react-i18next';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { KeyRound, Plus, Trash2 } from 'lucide-react';
import { api } from '@/lib/api';
import { errorText } from '@/lib/errors';
import { useSession } from '@/lib/session';
import type { ApiKey } from '@/lib/types';
import { formatAgo, formatTime } from '@/lib/utils';
import { Button, IconButton } from '@/ui/button';
import { Badge, CopyRow, EmptyState, ErrorState, Notice, Skeleton } from '@/ui/feedback';
import { Field, Input, Select } from '@/ui/form';
import { Confirm, Dialog } from '@/ui/overlay';
import { Tab, TabList, TabPanel, Tabs } from '@/ui/tabs';
import { Heading } from './parts';
import { Webhooks } from './webhooks';

const DAY_MS = 86_400_000;

export function ApiSettings() {
  const { t } = useTranslation();
  return (
    <Tabs defaultValue="keys">
      <TabList className="mb-5">
        <Tab value="keys">{t('apikeys.title')}</Tab>
        <Tab value="webhooks">{t('webhooks.title')}</Tab>
      </TabList>
      <TabPanel value="keys"><ApiKeys /></TabPanel>
      <TabPanel value="webhooks"><Webhooks /></TabPanel>
    </Tabs>
  );
}

function ApiKeys() {
  const { t, i18n } = useTranslation();
  const client = useQueryClient();
  const list = useQuery({ queryKey: ['apikeys'], queryFn: async () => (await api.get<{ keys: ApiKey[] }>('/apikeys')).keys });
  const [creating, setCreating] = useState(false);
  const [deleting, setDeleting] = useState<ApiKey | null>(null);
  return (
    <section>
      <Heading
        title={t('apikeys.title')}
        description={t('apikeys.hint')}
        actions={
          <Button variant="primary" size="sm" onClick={() => setCreating(true)}>
            <Plus className="size-4" aria-hidden />
            {t('apikeys.create')}
          </Button>
        }
      />
      {list.isPending && <Skeleton className="h-16" />}
      {list.isError && <ErrorState error={list.error} onRetry={() => void list.refetch()} />}
      {list.data?.length === 0 && <EmptyState icon={<KeyRound aria-hidden />} title={t('apikeys.none')}>{t('apikeys.noneHint')}</EmptyState>}
      <ul className="divide-y rounded-lg border empty:hidden">
        {list.data?.map((key) => {
          const expired = key.expires_at !== null && new Date(`${key.expires_at}Z`).getTime() < Date.now();
          const live = key.status === 'active' && !expired;
          return (
            <li key={key.id} className="flex flex-wrap items-center gap-x-4 gap-y-1 px-4 py-3">
              <div className="min-w-0 flex-1 basis-56">
                <p className="flex flex-wrap items-center gap-2 text-sm font-medium">
                  <span className="truncate">{key.name}</span>
                  <Badge tone={live ? 'ok' : 'neutral'}>
                    {t(key.status !== 'active' ? 'apikeys.revoked' : expired ? 'apikeys.expired' : 'apikeys.active')}
                  </Badge>
                </p>
                {key.description && <p className="truncate text-[13px] text-muted">{key.description}</p>}
                <p className="text-[13px] text-muted">
                  {t('apikeys.stored')} · {t('apikeys.created', { time: formatTime(key.created_at, i18n.language) })}
                  {' · '}
                  {key.last_used_at ? t('apikeys.used', { time: formatAgo(key.last_used_at, i18n.language) }) : t('apikeys.unused')}
                  {key.expires_at && !expired && ` · ${t('apikeys.expires', { time: formatTime(key.expires_at, i18n.language) })}`}
                </p>
              </div>
              {key.status === 'active' && (
                <IconButton label={t('apikeys.delete', { name: key.name })} size="iconSm" onClick={() => setDeleting(key)}>
                  <Trash2 className="size-4 text-muted" aria-hidden />
                </IconButton>
              )}
            </li>
          );
        })}
      </ul>
      {creating && <CreateKey onClose={() => setCreating(false)} />}
      <Confirm
        open={deleting !== null}
        onOpenChange={(open) => !open && setDeleting(null)}
        title={t('apikeys.deleteTitle')}
        description={t('apikeys.deleteText', { name: deleting?.name ?? '' })}
        action={t('common.delete')}
        onConfirm={async () => {
          await api.del(`/apikeys/${deleting?.id}`);
          await client.invalidateQueries({ queryKey: ['apikeys'] });
        }}
      />
    </section>
  );
}

function CreateKey({ onClose }: { onClose: () => void }) {
  const { t } = useTranslation();
  const client = useQueryClient();
  const { entry } = useSession();
  const [name, setName] = useState('');
  const [description, setDescription] = useState('');
  const [days, setDays] = useState('0');
  const [access, setAccess] = useState('mine');
  const [error, setError] = useState<string | null>(null);
  const [failure, setFailure] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const [secret, setSecret] = useState<string | null>(null);

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setError(name.trim() ? null : t('apikeys.noName'));
    if (!name.trim()) return;
    setBusy(true);
    setFailure(null);
    try {
      const body: Record<string, unknown> = { name: name.trim(), description };
      if (days !== '0') body.expires_at = new Date(Date.now() + Number(days) * DAY_MS).toISOString();
      if (access === 'read') body.scopes = entry.permissions.filter((p) => p === 'workspace.view' || p === 'resource.view');
      const { key } = await api.post<{ key: ApiKey }>('/apikeys', body);
      setSecret(key.key ?? null);
      void client.invalidateQueries({ queryKey: ['apikeys'] });
    } catch (cause) {
      setFailure(errorText(cause));
    } finally {
      setBusy(false);
    }
  };

  if (secret) {
    return (
      <Dialog open onOpenChange={onClose} title={t('apikeys.made')} footer={<Button variant="primary" onClick={onClose}>{t('common.done')}</Button>}>
        <Notice tone="warn" className="mb-3">{t('apikeys.once')}</Notice>
        <CopyRow value={secret} label={t('apikeys.copy')} />
      </Dialog>
    );
  }
  return (
    <Dialog
      open
      onOpenChange={onClose}
      title={t('apikeys.create')}
      footer={
        <>
          <Button onClick={onClose}>{t('common.cancel')}</Button>
          <Button type="submit" form="create-key" variant="primary" busy={busy}>{t('common.create')}</Button>
        </>
      }
    >
      <form id="create-key" noValidate onSubmit={submit} className="flex flex-col gap-4">
        <Field label={t('common.name')} required error={error}>
          {(control) => <Input {...control} autoFocus value={name} onChange={(e) => setName(e.target.value)} />}
        </Field>
        <Field label={t('common.description')}>
          {(control) => <Input {...control} value={description} onChange={(e) => setDescription(e.target.value)} />}
        </Field>
        <Field label={t('apikeys.access')}>
          {(control) => (
            <Select
              {...control}
              value={access}
              onChange={setAccess}
              options={[
                { value: 'mine', label: t('apikeys.accessMine') },
                { value: 'read', label: t('apikeys.accessRead') },
              ]}
            />
          )}
        </Field>
        <Field label={t('apikeys.lifetime')}>
          {(control) => (
            <Select
              {...control}
              value={days}
              onChange={setDays}
              options={[
                { value: '0', label: t('apikeys.forever') },
                ...[7, 30, 90, 365].map((n) => ({ value: String(n), label: t('apikeys.days', { n }) })),
              ]}
            />
          )}
        </Field>
        {failure && <Notice tone="bad">{failure}</Notice>}
      </form>
    </Dialog>
  );
}
