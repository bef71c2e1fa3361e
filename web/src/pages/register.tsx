import { useEffect, useState, type FormEvent } from 'react';
import { useTranslation } from 'react-i18next';
import { useNavigate } from 'react-router';
import { toast } from 'sonner';
import { PublicPage } from '@/components/public-page';
import { useTitle } from '@/components/title';
import { api } from '@/lib/api';
import { errorText } from '@/lib/errors';
import { KEYS, local } from '@/lib/storage';
import { isEmail } from '@/lib/utils';
import { Button } from '@/ui/button';
import { ErrorState, Notice, Spinner } from '@/ui/feedback';
import { Field, Input, PasswordInput } from '@/ui/form';

export function Component() {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const [ready, setReady] = useState(false);
  const [failure, setFailure] = useState<unknown>(null);
  const [round, setRound] = useState(0);
  useTitle(t('register.title'));

  useEffect(() => {
    let alive = true;
    setFailure(null);
    api.get<{ initialized: boolean }>('/user/init').then(
      ({ initialized }) => {
        if (!alive) return;
        if (initialized) void navigate('/login', { replace: true });
        else setReady(true);
      },
      (error) => alive && setFailure(error),
    );
    return () => {
      alive = false;
    };
  }, [navigate, round]);

  return (
    <PublicPage title={t('register.heading')} subtitle={t('register.subtitle')}>
      {failure !== null ? (
        <ErrorState error={failure} onRetry={() => setRound(round + 1)} className="py-4" />
      ) : ready ? (
        <RegisterForm />
      ) : (
        <Spinner />
      )}
    </PublicPage>
  );
}

function RegisterForm() {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const [email, setEmail] = useState('');
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
      await api.post('/user/init', { user: email.trim(), password });
      local.set(KEYS.email, email.trim());
      toast.success(t('register.done'));
      void navigate('/login', { replace: true });
    } catch (error) {
      setFailure(t('register.failed', { reason: errorText(error) }));
    } finally {
      setBusy(false);
    }
  };

  return (
    <form noValidate onSubmit={submit} aria-busy={busy} className="flex flex-col gap-4">
      <Field label={t('login.email')} error={errors.email} hint={t('register.emailHint')}>
        {(control) => <Input {...control} type="email" autoComplete="username" autoFocus value={email} onChange={(e) => setEmail(e.target.value)} />}
      </Field>
      <Field label={t('login.password')} error={errors.password} hint={t('register.passwordHint')}>
        {(control) => (
          <PasswordInput {...control} autoComplete="new-password" value={password} onChange={(e) => setPassword(e.target.value)} />
        )}
      </Field>
      {failure && <Notice tone="bad">{failure}</Notice>}
      <Button type="submit" variant="primary" busy={busy} className="mt-1 w-full">{t('register.submit')}</Button>
    </form>
  );
}
