import { useMemo, useRef, useState, type FormEvent } from 'react';
import { useTranslation } from 'react-i18next';
import { useQuery } from '@tanstack/react-query';
import { toast } from 'sonner';
import { RequesterIcon } from '@/components/adapter-icon';
import { api } from '@/lib/api';
import { errorText } from '@/lib/errors';
import { pick } from '@/lib/i18n';
import { useCan } from '@/lib/session';
import type { Provider, Requester } from '@/lib/types';
import { Button } from '@/ui/button';
import { Combobox, type ComboItem } from '@/ui/combobox';
import { ErrorState, Notice, Spinner } from '@/ui/feedback';
import { Field, Input, PasswordInput } from '@/ui/form';
import { Confirm, Dialog } from '@/ui/overlay';

/** Kinds that need a service or a sign-in of their own. */
const NOT_HERE = new Set(['space-chat-completions', 'openai-codex']);
const CATEGORY_ORDER = ['manufacturer', 'maas', 'self-hosted', 'unified', 'builtin'];

function defaultUrl(requester: Requester | undefined): string {
  const value = requester?.spec.config?.find((field) => field.name === 'base_url' || field.name === 'base-url')?.default;
  return typeof value === 'string' ? value : '';
}

export function ProviderDialog({ provider, onClose }: { provider: Provider | null; onClose: (saved?: string, deleted?: string) => void }) {
  const { t } = useTranslation();
  // Both before the form: a form with one half missing invites overwriting the other.
  const loaded = useQuery({
    queryKey: ['provider-form', provider?.uuid ?? 'new'],
    staleTime: 0,
    gcTime: 0,
    queryFn: async () => {
      const [requesters, current] = await Promise.all([
        api.get<{ requesters: Requester[] }>('/provider/requesters'),
        provider ? api.get<{ provider: Provider }>(`/provider/providers/${provider.uuid}`) : Promise.resolve(null),
      ]);
      return { requesters: requesters.requesters, provider: current?.provider ?? null };
    },
  });
  const title = provider ? t('models.providerTitle', { name: provider.name }) : t('models.addProvider');
  if (!loaded.data) {
    return (
      <Dialog open onOpenChange={() => onClose()} title={title} footer={<Button onClick={() => onClose()}>{t('common.cancel')}</Button>}>
        {loaded.isError ? <ErrorState error={loaded.error} onRetry={() => void loaded.refetch()} /> : <Spinner />}
      </Dialog>
    );
  }
  return <ProviderForm title={title} requesters={loaded.data.requesters} provider={loaded.data.provider} onClose={onClose} />;
}

function ProviderForm({ title, requesters, provider, onClose }: {
  title: string;
  requesters: Requester[];
  provider: Provider | null;
  onClose: (saved?: string, deleted?: string) => void;
}) {
  const { t } = useTranslation();
  const mayManage = useCan('resource.manage');
  const [name, setName] = useState(provider?.name ?? '');
  const [requester, setRequester] = useState(provider?.requester ?? '');
  const [url, setUrl] = useState(provider?.base_url ?? '');
  const [key, setKey] = useState(provider?.api_keys?.[0] ?? '');
  const [errors, setErrors] = useState<{ name?: string; requester?: string; url?: string }>({});
  const [failure, setFailure] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const [deleting, setDeleting] = useState(false);
  // A second save after a failure further on must update the row that the first one made.
  const savedId = useRef(provider?.uuid ?? null);

  const items = useMemo<ComboItem[]>(() => {
    const rank = (r: Requester) => {
      const at = CATEGORY_ORDER.indexOf(r.spec.provider_category ?? '');
      return at < 0 ? CATEGORY_ORDER.length : at;
    };
    return requesters
      .filter((r) => !NOT_HERE.has(r.name) || r.name === provider?.requester)
      .slice()
      .sort((a, b) => rank(a) - rank(b))
      .map((r) => ({
        value: r.name,
        label: pick(r.label) || r.name,
        group: t(`models.category.${r.spec.provider_category ?? 'other'}`, { defaultValue: t('models.category.other') }),
        search: Array.isArray(r.spec.alias) ? r.spec.alias.join(' ') : r.spec.alias,
        icon: <RequesterIcon name={r.name} className="size-4" />,
      }));
  }, [requesters, provider, t]);

  const select = (next: string) => {
    const before = defaultUrl(requesters.find((r) => r.name === requester));
    const found = requesters.find((r) => r.name === next);
    if (!url || url === before) setUrl(defaultUrl(found));
    if (!name || name === pick(requesters.find((r) => r.name === requester)?.label)) setName(pick(found?.label) || next);
    setRequester(next);
  };

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    const found = {
      name: name.trim() ? undefined : t('models.noName'),
      requester: requester ? undefined : t('models.noRequester'),
      url: !url.trim() || /^https?:\/\/\S+$/.test(url.trim()) ? undefined : t('models.badUrl'),
    };
    setErrors(found);
    setFailure(null);
    if (found.name || found.requester || found.url) return;
    setBusy(true);
    try {
      // Only the first key is edited here; further ones of the row stay.
      const keys = [key.trim(), ...(provider?.api_keys ?? []).slice(1)].filter(Boolean);
      const body = { name: name.trim(), requester, base_url: url.trim(), api_keys: keys };
      if (savedId.current) await api.put(`/provider/providers/${savedId.current}`, body);
      else savedId.current = (await api.post<{ uuid: string }>('/provider/providers', body)).uuid;
      toast.success(t('common.saved'));
      onClose(savedId.current);
    } catch (error) {
      setFailure(errorText(error));
      setBusy(false);
    }
  };

  return (
    <>
      <Dialog
        open
        onOpenChange={() => onClose()}
        title={title}
        footer={
          <>
            {provider && mayManage && (
              <Button variant="danger" className="mr-auto" disabled={busy} onClick={() => setDeleting(true)}>{t('common.delete')}</Button>
            )}
            <Button onClick={() => onClose()}>{t('common.cancel')}</Button>
            <Button type="submit" form="provider-form" variant="primary" busy={busy}>{t('common.save')}</Button>
          </>
        }
      >
        <form id="provider-form" noValidate onSubmit={submit} aria-busy={busy} className="flex flex-col gap-4">
          <Field label={t('models.requester')} required error={errors.requester} hint={t('models.requesterHint')}>
            {(control) => (
              <Combobox {...control} items={items} value={requester} onChange={select} placeholder={t('models.chooseRequester')} disabled={provider?.requester === 'openai-codex'} />
            )}
          </Field>
          <Field label={t('common.name')} required error={errors.name}>
            {(control) => <Input {...control} value={name} onChange={(e) => setName(e.target.value)} />}
          </Field>
          <Field label={t('models.baseUrl')} error={errors.url} hint={t('models.baseUrlHint')}>
            {(control) => <Input {...control} type="url" inputMode="url" spellCheck={false} placeholder="https://" value={url} onChange={(e) => setUrl(e.target.value)} />}
          </Field>
          <Field label={t('models.apiKey')} hint={t('models.apiKeyHint')}>
            {(control) => <PasswordInput {...control} autoComplete="off" spellCheck={false} value={key} onChange={(e) => setKey(e.target.value)} />}
          </Field>
          {failure && <Notice tone="bad">{failure}</Notice>}
        </form>
      </Dialog>
      <Confirm
        open={deleting}
        onOpenChange={setDeleting}
        title={t('models.deleteProviderTitle')}
        description={t('models.deleteProviderText', { name: provider?.name ?? '' })}
        action={t('common.delete')}
        onConfirm={async () => {
          await api.del(`/provider/providers/${provider?.uuid}`, { cascade: true });
          toast.success(t('common.deleted'));
          onClose(undefined, provider?.uuid);
        }}
      />
    </>
  );
}
