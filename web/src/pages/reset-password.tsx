import { useState, type FormEvent } from 'react';
import { useTranslation } from 'react-i18next';
import { Link, useNavigate } from 'react-router';
import { toast } from 'sonner';
import { PublicPage } from '@/components/public-page';
import { useTitle } from '@/components/title';
import { api } from '@/lib/api';
import { errorText } from '@/lib/errors';
import { isEmail } from '@/lib/utils';
import { Button } from '@/ui/button';
import { Notice } from '@/ui/feedback';
import { Field, Input, PasswordInput } from '@/ui/form';

export function Component() {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const [email, setEmail] = useState('');
  const [key, setKey] = useState('');
  const [password, setPassword] = useState('');
  const [errors, setErrors] = useState<{ email?: string; key?: string; password?: string }>({});
  const [failure, setFailure] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  useTitle(t('reset.title'));

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    const found = {
      email: isEmail(email) ? undefined : t('login.badEmail'),
      key: key ? undefined : t('reset.noKey'),
      password: password ? undefined : t('login.noPassword'),
    };
    setErrors(found);
    setFailure(null);
    if (found.email || found.key || found.password) return;
    setBusy(true);
    try {
      // The key is compared as it stands: operators choose their own, so nothing is trimmed or upper-cased.
      await api.post('/user/reset-password', { user: email.trim(), recovery_key: key, new_password: password });
      toast.success(t('reset.done'));
      void navigate('/login', { replace: true });
    } catch (error) {
      setFailure(errorText(error));
    } finally {
      setBusy(false);
    }
  };

  return (
    <PublicPage
      title={t('reset.title')}
      subtitle={t('reset.subtitle')}
      footer={<Link to="/login" className="text-accent-text hover:underline">{t('reset.back')}</Link>}
    >
      <form noValidate onSubmit={submit} aria-busy={busy} className="flex flex-col gap-4">
        <Field label={t('login.email')} error={errors.email}>
          {(control) => <Input {...control} type="email" autoComplete="username" autoFocus value={email} onChange={(e) => setEmail(e.target.value)} />}
        </Field>
        <Field label={t('reset.key')} hint={t('reset.keyHint')} error={errors.key}>
          {(control) => (
            <Input {...control} autoComplete="off" spellCheck={false} className="font-mono" value={key} onChange={(e) => setKey(e.target.value)} />
          )}
        </Field>
        <Field label={t('reset.newPassword')} error={errors.password}>
          {(control) => <PasswordInput {...control} autoComplete="new-password" value={password} onChange={(e) => setPassword(e.target.value)} />}
        </Field>
        {failure && <Notice tone="bad">{failure}</Notice>}
        <Button type="submit" variant="primary" busy={busy} className="mt-1 w-full">{busy ? t('reset.busy') : t('reset.submit')}</Button>
      </form>
    </PublicPage>
  );
}
