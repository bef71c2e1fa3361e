import { useCallback, useEffect, useState, type FormEvent } from 'react';
import { useTranslation } from 'react-i18next';
import { useNavigate, useSearchParams } from 'react-router';
import { CircleCheck } from 'lucide-react';
import { toast } from 'sonner';
import { PublicPage } from '@/components/public-page';
import { useTitle } from '@/components/title';
import { ApiError, api } from '@/lib/api';
import { errorText } from '@/lib/errors';
import { acceptPending } from '@/lib/invitation';
import { landingAfterLogin } from '@/lib/session';
import { KEYS, clearSession, local, session } from '@/lib/storage';
import type { AccountInfo, Invitation, Workspace } from '@/lib/types';
import { formatTime } from '@/lib/utils';
import { Button } from '@/ui/button';
import { Badge, Notice, Spinner } from '@/ui/feedback';
import { Field, Input, PasswordInput } from '@/ui/form';

type State =
  | { kind: 'loading' }
  | { kind: 'error'; text: string }
  | { kind: 'ready'; invitation: Invitation; workspace: Workspace; account: AccountInfo }
  | { kind: 'success' };

/** The token travels in the fragment, which no server log sees, and leaves the address bar at once. */
function takeToken(): string | null {
  const token = new URLSearchParams(window.location.hash.replace(/^#/, '')).get('token');
  if (token) {
    session.set(KEYS.invitation, token);
    window.history.replaceState(window.history.state, '', window.location.pathname + window.location.search);
  }
  return token ?? session.get(KEYS.invitation);
}

export function Component() {
  const { t, i18n } = useTranslation();
  const navigate = useNavigate();
  const [params, setParams] = useSearchParams();
  const [state, setState] = useState<State>({ kind: 'loading' });
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<string | null>(null);
  useTitle(t('invite.title'));

  const inspect = useCallback(async () => {
    const deferred = params.get('error');
    const token = takeToken();
    if (deferred && !window.location.hash && !token) {
      setState({ kind: 'error', text: t(`code.${deferred}`, { defaultValue: t('invite.failed') }) });
      return;
    }
    if (!token) {
      setState({ kind: 'error', text: t('invite.noToken') });
      return;
    }
    setState({ kind: 'loading' });
    try {
      const [{ invitation, workspace }, account] = await Promise.all([
        api.post<{ invitation: Invitation; workspace: Workspace }>('/invitations/inspect', { token }, { anonymous: true }),
        api.get<AccountInfo>('/user/account-info'),
      ]);
      setState({ kind: 'ready', invitation, workspace, account });
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 0)) session.remove(KEYS.invitation);
      setState({ kind: 'error', text: errorText(error) });
    }
  }, [params, t]);

  useEffect(() => {
    void inspect();
    const again = () => {
      if (!window.location.hash.includes('token=')) return;
      takeToken();
      if (params.has('error')) setParams({}, { replace: true });
      else void inspect();
    };
    window.addEventListener('hashchange', again);
    return () => window.removeEventListener('hashchange', again);
  }, [inspect, params, setParams]);

  const toLogin = () => {
    clearSession();
    void navigate('/login?invitation=1', { replace: true });
  };

  const accept = async () => {
    setBusy(true);
    setFailure(null);
    try {
      const workspace = await acceptPending();
      const target = await landingAfterLogin(workspace);
      setState({ kind: 'success' });
      setTimeout(() => void navigate(target, { replace: true }), 600);
    } catch (error) {
      setFailure(errorText(error));
    } finally {
      setBusy(false);
    }
  };

  const hasToken = local.get(KEYS.token) !== null;
  return (
    <PublicPage title={t('invite.title')}>
      <div aria-live="polite">
        {state.kind === 'loading' && <Spinner label={t('invite.checking')} />}
        {state.kind === 'error' && (
          <div className="flex flex-col gap-4">
            <Notice tone="bad">{state.text}</Notice>
            <p className="text-sm text-muted">{t('invite.askAgain')}</p>
            <Button
              onClick={() => {
                clearSession();
                session.remove(KEYS.invitation);
                void navigate('/login', { replace: true });
              }}
            >
              {t('invite.backToLogin')}
            </Button>
          </div>
        )}
        {state.kind === 'success' && (
          <div className="flex flex-col items-center gap-2 py-4 text-center">
            <CircleCheck className="size-8 text-ok" aria-hidden />
            <p>{t('invite.joined')}</p>
          </div>
        )}
        {state.kind === 'ready' && (
          <div className="flex flex-col gap-5">
            <div className="rounded-lg bg-sunken px-4 py-3 text-sm">
              <p>{t('invite.text', { workspace: state.workspace.name })}</p>
              <p className="mt-2 flex flex-wrap items-center gap-2 text-[13px] text-muted">
                <Badge tone="accent">{t(`role.${state.invitation.role}`)}</Badge>
                {t('invite.expires', { time: formatTime(state.invitation.expires_at, i18n.language) })}
              </p>
            </div>
            {failure && <Notice tone="bad">{failure}</Notice>}
            {hasToken && state.account.authenticated_invitation_acceptance_enabled === true && (
              <Button variant="primary" busy={busy} onClick={accept}>{t('invite.accept')}</Button>
            )}
            {hasToken && state.account.authenticated_invitation_acceptance_enabled !== true && (
              <>
                <Notice tone="warn">{t('invite.logoutFirst')}</Notice>
                <Button
                  variant="primary"
                  onClick={() => {
                    clearSession();
                    void inspect();
                  }}
                >
                  {t('invite.logoutAndReturn')}
                </Button>
              </>
            )}
            {!hasToken && <RegisterInvited email={state.invitation.normalized_email} onLogin={toLogin} />}
          </div>
        )}
      </div>
    </PublicPage>
  );
}

function RegisterInvited({ email, onLogin }: { email: string; onLogin: () => void }) {
  const { t } = useTranslation();
  const [password, setPassword] = useState('');
  const [again, setAgain] = useState('');
  const [errors, setErrors] = useState<{ password?: string; again?: string }>({});
  const [failure, setFailure] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    const found = {
      password: password.length >= 8 ? undefined : t('invite.shortPassword'),
      again: again === password ? undefined : t('invite.differentPasswords'),
    };
    setErrors(found);
    setFailure(null);
    if (found.password || found.again) return;
    setBusy(true);
    try {
      await api.post(
        '/invitations/accept',
        { token: session.get(KEYS.invitation), registration: { email, password } },
        { anonymous: true },
      );
      session.remove(KEYS.invitation);
      local.set(KEYS.email, email);
      toast.success(t('invite.registered'));
      onLogin();
    } catch (error) {
      setFailure(errorText(error));
    } finally {
      setBusy(false);
    }
  };

  return (
    <form noValidate onSubmit={submit} aria-busy={busy} className="flex flex-col gap-4">
      <Field label={t('login.email')}>{(control) => <Input {...control} type="email" autoComplete="username" readOnly value={email} />}</Field>
      <Field label={t('login.password')} hint={t('invite.passwordRule')} error={errors.password}>
        {(control) => <PasswordInput {...control} autoComplete="new-password" value={password} onChange={(e) => setPassword(e.target.value)} />}
      </Field>
      <Field label={t('invite.again')} error={errors.again}>
        {(control) => <PasswordInput {...control} autoComplete="new-password" value={again} onChange={(e) => setAgain(e.target.value)} />}
      </Field>
      {failure && <Notice tone="bad">{failure}</Notice>}
      <Button type="submit" variant="primary" busy={busy}>{t('invite.register')}</Button>
      <Button variant="ghost" onClick={onLogin}>{t('invite.haveAccount')}</Button>
    </form>
  );
}
