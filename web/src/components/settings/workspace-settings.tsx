import { useState, type FormEvent } from 'react';
import { useTranslation } from 'react-i18next';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { MailPlus, Trash2 } from 'lucide-react';
import { toast } from 'sonner';
import { api } from '@/lib/api';
import { errorText } from '@/lib/errors';
import { useCan, useSession } from '@/lib/session';
import type { Invitation, Membership } from '@/lib/types';
import { formatTime, isEmail } from '@/lib/utils';
import { Button, IconButton } from '@/ui/button';
import { Badge, CopyRow, ErrorState, Notice, Skeleton } from '@/ui/feedback';
import { Field, Input, Select } from '@/ui/form';
import { Confirm } from '@/ui/overlay';
import { Heading } from './parts';

const ROLES = ['admin', 'developer', 'operator', 'viewer'];

export function WorkspaceSettings() {
  const { t } = useTranslation();
  const { entry } = useSession();
  const mayInvite = useCan('member.invite');
  const mayView = useCan('member.view');
  return (
    <div className="flex flex-col gap-8">
      <section>
        <Heading title={t('settings.workspace')} />
        <dl className="grid grid-cols-[auto_1fr] gap-x-6 gap-y-2 text-sm">
          <dt className="text-muted">{t('workspace.name')}</dt>
          <dd className="flex items-center gap-2">
            <span className="font-medium">{entry.workspace.name}</span>
            {entry.plan_name && <Badge tone="accent">{entry.plan_name}</Badge>}
          </dd>
          <dt className="text-muted">{t('workspace.yourRole')}</dt>
          <dd>{t(`role.${entry.membership.role}`)}</dd>
        </dl>
      </section>
      {mayInvite && <Invitations workspace={entry.workspace.uuid} />}
      {mayView && <Members workspace={entry.workspace.uuid} />}
    </div>
  );
}

function Invitations({ workspace }: { workspace: string }) {
  const { t, i18n } = useTranslation();
  const client = useQueryClient();
  const key = ['invitations', workspace];
  const list = useQuery({
    queryKey: key,
    queryFn: async () => (await api.get<{ invitations: Invitation[] }>(`/workspaces/${workspace}/invitations`)).invitations,
  });
  const [email, setEmail] = useState('');
  const [role, setRole] = useState('viewer');
  const [error, setError] = useState<string | null>(null);
  const [made, setMade] = useState<{ link: string; email: string; delivery: { status: string; provider: string | null } } | null>(null);
  const [revoking, setRevoking] = useState<Invitation | null>(null);

  const invite = useMutation({
    mutationFn: () =>
      api.post<{ link: string; delivery: { status: string; provider: string | null } }>(`/workspaces/${workspace}/invitations`, {
        email: email.trim(),
        role,
      }),
    onSuccess: (data) => {
      setMade({ ...data, email: email.trim() });
      setEmail('');
      void client.invalidateQueries({ queryKey: key });
    },
    onError: (failure) => setError(errorText(failure)),
  });

  const submit = (event: FormEvent) => {
    event.preventDefault();
    setError(null);
    setMade(null);
    if (isEmail(email)) invite.mutate();
    else setError(t('login.badEmail'));
  };

  return (
    <section>
      <Heading title={t('workspace.invite')} description={t('workspace.inviteHint')} />
      <form noValidate onSubmit={submit} className="flex flex-wrap items-end gap-3">
        <Field label={t('login.email')} className="min-w-56 flex-1">
          {(control) => <Input {...control} type="email" autoComplete="off" value={email} onChange={(e) => setEmail(e.target.value)} />}
        </Field>
        <Field label={t('workspace.role')} className="w-40">
          {(control) => <Select {...control} value={role} onChange={setRole} options={ROLES.map((r) => ({ value: r, label: t(`role.${r}`) }))} />}
        </Field>
        <Button type="submit" variant="primary" busy={invite.isPending}>
          <MailPlus className="size-4" aria-hidden />
          {t('workspace.send')}
        </Button>
      </form>
      <div aria-live="polite">
        {error && <Notice tone="bad" className="mt-3">{error}</Notice>}
        {made && (
          <div className="mt-3 flex flex-col gap-2">
            <Notice tone={made.delivery.status === 'failed' ? 'warn' : 'ok'}>
              {t(`workspace.delivery.${made.delivery.status}`, { email: made.email, provider: made.delivery.provider ?? '' })}
            </Notice>
            <CopyRow value={made.link} label={t('workspace.copyLink')} />
          </div>
        )}
      </div>
      {list.isError && <ErrorState error={list.error} onRetry={() => void list.refetch()} className="py-4" />}
      {list.data && list.data.length > 0 && (
        <>
          <h3 className="mt-5 mb-2 text-sm font-medium">{t('workspace.pending')}</h3>
          <ul className="divide-y rounded-lg border">
            {list.data.map((item) => (
              <li key={item.uuid} className="flex flex-wrap items-center gap-x-3 gap-y-1 px-3 py-2 text-sm">
                <span className="min-w-0 flex-1 basis-48 truncate">{item.normalized_email}</span>
                <Badge>{t(`role.${item.role}`)}</Badge>
                <span className="text-[13px] text-muted">{t('workspace.expires', { time: formatTime(item.expires_at, i18n.language) })}</span>
                <Button size="sm" variant="danger" onClick={() => setRevoking(item)}>{t('workspace.revoke')}</Button>
              </li>
            ))}
          </ul>
        </>
      )}
      <Confirm
        open={revoking !== null}
        onOpenChange={(open) => !open && setRevoking(null)}
        title={t('workspace.revokeTitle')}
        description={t('workspace.revokeText', { email: revoking?.normalized_email ?? '' })}
        action={t('workspace.revoke')}
        onConfirm={async () => {
          await api.del(`/workspaces/${workspace}/invitations/${revoking?.uuid}`);
          await client.invalidateQueries({ queryKey: key });
        }}
      />
    </section>
  );
}

function Members({ workspace }: { workspace: string }) {
  const { t } = useTranslation();
  const client = useQueryClient();
  const { entry } = useSession();
  const mayRole = useCan('member.update_role');
  const mayRemove = useCan('member.remove');
  const key = ['members', workspace];
  const list = useQuery({
    queryKey: key,
    queryFn: async () => (await api.get<{ members: Membership[] }>(`/workspaces/${workspace}/members`)).members,
  });
  const [removing, setRemoving] = useState<Membership | null>(null);
  const change = useMutation({
    mutationFn: ({ account, role }: { account: string; role: string }) => api.patch(`/workspaces/${workspace}/members/${account}`, { role }),
    onSuccess: () => toast.success(t('common.saved')),
    onError: (failure) => toast.error(errorText(failure)),
    onSettled: () => client.invalidateQueries({ queryKey: key }),
  });

  return (
    <section>
      <Heading title={t('workspace.members')} />
      {list.isPending && <Skeleton className="h-14" />}
      {list.isError && <ErrorState error={list.error} onRetry={() => void list.refetch()} />}
      <ul className="divide-y rounded-lg border empty:hidden">
        {list.data?.map((member) => {
          const self = member.account_uuid === entry.membership.account_uuid;
          const fixed = member.role === 'owner' || self || !mayRole;
          return (
            <li key={member.uuid ?? member.account_uuid} className="flex flex-wrap items-center gap-x-3 gap-y-2 px-3 py-2.5">
              <div className="min-w-0 flex-1 basis-52">
                <p className="flex items-center gap-2 text-sm font-medium">
                  <span className="truncate">{member.display_name || member.email}</span>
                  {self && <Badge>{t('workspace.you')}</Badge>}
                </p>
                <p className="truncate text-[13px] text-muted">{member.email}</p>
              </div>
              {fixed ? (
                <Badge tone="accent">{t(`role.${member.role}`)}</Badge>
              ) : (
                <Select
                  size="sm"
                  className="w-36"
                  aria-label={t('workspace.roleOf', { name: member.email ?? '' })}
                  value={member.role}
                  onChange={(role) => change.mutate({ account: member.account_uuid ?? '', role })}
                  options={ROLES.map((role) => ({ value: role, label: t(`role.${role}`) }))}
                />
              )}
              {!fixed && mayRemove && (
                <IconButton label={t('workspace.remove', { name: member.email ?? '' })} size="iconSm" onClick={() => setRemoving(member)}>
                  <Trash2 className="size-4 text-muted" aria-hidden />
                </IconButton>
              )}
            </li>
          );
        })}
      </ul>
      <Confirm
        open={removing !== null}
        onOpenChange={(open) => !open && setRemoving(null)}
        title={t('workspace.removeTitle')}
        description={t('workspace.removeText', { name: removing?.email ?? '' })}
        action={t('common.remove')}
        onConfirm={async () => {
          await api.del(`/workspaces/${workspace}/members/${removing?.account_uuid}`);
          await client.invalidateQueries({ queryKey: key });
        }}
      />
    </section>
  );
}
