import { useEffect, useState, type FormEvent } from 'react';
import { useTranslation } from 'react-i18next';
import { Link, useNavigate, useSearchParams } from 'react-router';
import { toast } from 'sonner';
import { PublicPage } from '@/components/public-page';
import { useTitle } from '@/components/title';
import { ApiError, api } from '@/lib/api';
import { errorText } from '@/lib/errors';
import { acceptPending, isTerminalInvitationError, pendingInvitation } from '@/lib/invitation';
import { landingAfterLogin } from '@/lib/session';
import { KEYS, clearSession, local, session, storeSession } from '@/lib/storage';
import type { AccountInfo } from '@/lib/types';
import { isEmail } from '@/lib/utils';
import { Button } from '@/ui/button';
import { ErrorState, Notice, Spinner } from '@/ui/feedback';
import { Field, Input, PasswordInput } from '@/ui/form';

export function Component() {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const [params] = useSearchParams();
  const [info, setInfo] = useState<AccountInfo | null>(null);
  const [failure, setFailure] = useState<unknown>(null);
  const [round, setRound] = useState(0);
  useTitle(t('login.title'));

  useEffect(() => {
    let alive = true;
    const start = async () => {
      if (local.get(KEYS.token) && !pendingInvitation()) {
        try {
          const { token } = await api.get<{ token: string }>('/user/check-token');
          storeSession(token);
          const target = await landingAfterLogin();
          if (alive) void navigate(target, { replace: true });
          return;
        } catch (error) {
          if (error instanceof ApiError && error.status === 401) clearSession();
        }
      }
      const account = await api.get<AccountInfo>('/user/account-info');
      if (!alive) return;
      if (!account.initialized) void navigate('/register', { replace: true });
      else setInfo(account);
    };
    setFailure(null);
    start().catch((error) => alive && setFailure(error));
    return () => {
      alive = false;
    };
  }, [navigate, round]);

  return (
    <PublicPage title={t('login.heading')} subtitle={t('login.subtitle')}>
      {failure !== null ? (
        <ErrorState error={failure} onRetry={() => setRound(round + 1)} className="py-4" />
      ) : info === null ? (
        <Spinner />
      ) : (
        <>
          {params.get('invitation') === '1' && pendingInvitation() && (
            <Notice tone="accent" className="mb-4">{t('login.invitationPending')}</Notice>
          )}
          {info.password_login_enabled !== false ? <LoginForm /> : <Notice tone="warn">{t('login.passwordDisabled')}</Notice>}
        </>
      )}
    </PublicPage>
  );
}

function LoginForm() {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const [email, setEmail] = useState(local.get(KEYS.email) ?? '');
  const [password, setPassword] = useState('');
  const [errors, setErrors] = useState<{ email?: string; password?: string }>({});
  const [failure, setFailure] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    const found = {
      email: isEmail(email) ? undefined : t('login.badEmail'),
      password: password ? undefined : t('login.noPassword'),
    };
    setErrors(found);
    setFailure(null);
    if (found.email || found.password) return;
    setBusy(true);
    try {
      const { token } = await api.post<{ token: string }>('/user/auth', { user: email.trim(), password });
      clearSession();
      storeSession(token, email.trim());
      let workspace: string | null = null;
      let accepted = true;
      try {
        workspace = await acceptPending();
      } catch (error) {
        const code = isTerminalInvitationError(error);
        session.remove(KEYS.invitation);
        if (code || !(error instanceof ApiError && error.code === 'invitation_logout_required')) {
          void navigate(code ? `/invitations/accept?error=${code}` : '/invitations/accept', { replace: true });
          return;
        }
        accepted = false;
      }
      const target = await landingAfterLogin(workspace);
      if (accepted && target.startsWith('/home')) toast.success(t('login.done'));
      void navigate(target, { replace: true });
    } catch (error) {
      // The server words some refusals in one language only; which part was wrong is nobody's business anyway.
      const refused = error instanceof ApiError && error.code === 1 && error.message !== 'Account is disabled';
      setFailure(refused ? t('error.badLogin') : errorText(error));
    } finally {
      setBusy(false);
    }
  };

  return (
    <form noValidate onSubmit={submit} aria-busy={busy} className="flex flex-col gap-4">
      <Field label={t('login.email')} error={errors.email}>
        {(control) => (
          <Input {...control} type="email" autoComplete="username" autoFocus={!email} value={email} onChange={(e) => setEmail(e.target.value)} />
        )}
      </Field>
      <Field
        label={t('login.password')}
        error={errors.password}
        trailing={<Link to="/reset-password" className="ml-auto text-[13px] text-accent-text hover:underline">{t('login.forgot')}</Link>}
      >
        {(control) => (
          <PasswordInput {...control} autoComplete="current-password" autoFocus={Boolean(email)} value={password} onChange={(e) => setPassword(e.target.value)} />
        )}
      </Field>
      {failure && <Notice tone="bad">{failure}</Notice>}
      <Button type="submit" variant="primary" busy={busy} className="mt-1 w-full">{t('login.submit')}</Button>
    </form>
  );
}
