import { useState, type FormEvent } from 'react';
import { useTranslation } from 'react-i18next';
import { toast } from 'sonner';
import { api } from '@/lib/api';
import { errorText } from '@/lib/errors';
import { useSession } from '@/lib/session';
import { storeSession } from '@/lib/storage';
import { Button } from '@/ui/button';
import { Notice } from '@/ui/feedback';
import { Field, PasswordInput } from '@/ui/form';
import { Heading } from './parts';

export function AccountSettings() {
  const { t } = useTranslation();
  const { user, system } = useSession();
  const [current, setCurrent] = useState('');
  const [next, setNext] = useState('');
  const [again, setAgain] = useState('');
  const [errors, setErrors] = useState<{ current?: string; next?: string; again?: string }>({});
  const [failure, setFailure] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const [hasPassword, setHasPassword] = useState(user?.has_password ?? true);
  const locked = system.allow_modify_login_info === false;

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    const found = {
      current: hasPassword && !current ? t('account.noCurrent') : undefined,
      next: next ? undefined : t('login.noPassword'),
      again: next === again ? undefined : t('invite.differentPasswords'),
    };
    setErrors(found);
    setFailure(null);
    if (found.current || found.next || found.again) return;
    setBusy(true);
    try {
      if (hasPassword) await api.post('/user/change-password', { current_password: current, new_password: next });
      else await api.post('/user/set-password', { new_password: next });
      // A new password ends every session, this one too; whoever has just typed it need not do so again.
      if (user) storeSession((await api.post<{ token: string }>('/user/auth', { user: user.user, password: next })).token);
      setHasPassword(true);
      setCurrent('');
      setNext('');
      setAgain('');
      toast.success(t('account.changed'));
    } catch (error) {
      setFailure(errorText(error));
    } finally {
      setBusy(false);
    }
  };

  return (
    <div className="flex max-w-md flex-col gap-8">
      <section>
        <Heading title={t('settings.account')} />
        <dl className="grid grid-cols-[auto_1fr] gap-x-6 gap-y-2 text-sm">
          <dt className="text-muted">{t('login.email')}</dt>
          <dd className="truncate font-medium">{user?.user}</dd>
        </dl>
      </section>
      <section>
        <Heading title={t(hasPassword ? 'account.changePassword' : 'account.setPassword')} />
        {locked ? (
          <Notice tone="warn">{t('account.locked')}</Notice>
        ) : (
          <form noValidate onSubmit={submit} aria-busy={busy} className="flex flex-col gap-4">
            {hasPassword && (
              <Field label={t('account.current')} error={errors.current}>
                {(control) => <PasswordInput {...control} autoComplete="current-password" value={current} onChange={(e) => setCurrent(e.target.value)} />}
              </Field>
            )}
            <Field label={t('reset.newPassword')} error={errors.next}>
              {(control) => <PasswordInput {...control} autoComplete="new-password" value={next} onChange={(e) => setNext(e.target.value)} />}
            </Field>
            <Field label={t('invite.again')} error={errors.again}>
              {(control) => <PasswordInput {...control} autoComplete="new-password" value={again} onChange={(e) => setAgain(e.target.value)} />}
            </Field>
            {failure && <Notice tone="bad">{failure}</Notice>}
            <Button type="submit" variant="primary" busy={busy} className="self-start">{t('common.save')}</Button>
          </form>
        )}
      </section>
    </div>
  );
}
