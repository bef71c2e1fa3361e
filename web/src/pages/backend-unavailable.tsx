import { useCallback, useEffect, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { useNavigate } from 'react-router';
import { PublicPage } from '@/components/public-page';
import { useTitle } from '@/components/title';
import { api } from '@/lib/api';
import { KEYS, session } from '@/lib/storage';
import { safeReturnTo } from '@/lib/utils';
import { Button } from '@/ui/button';

const EVERY_MS = 5000;

export function Component() {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const [busy, setBusy] = useState(false);
  useTitle(t('offline.title'));

  const attempt = useCallback(async () => {
    setBusy(true);
    try {
      await api.get('/system/info');
      const target = safeReturnTo(session.get(KEYS.unavailableReturn)) ?? '/home';
      session.remove(KEYS.unavailableReturn);
      void navigate(target, { replace: true });
    } catch {
      setBusy(false);
    }
  }, [navigate]);

  useEffect(() => {
    const timer = setInterval(() => void attempt(), EVERY_MS);
    return () => clearInterval(timer);
  }, [attempt]);

  return (
    <PublicPage title={t('offline.title')} subtitle={t('offline.text')}>
      <p className="mb-4 text-[13px] text-muted" role="status">{t('offline.auto')}</p>
      <Button variant="primary" busy={busy} onClick={() => void attempt()} className="w-full">{t('common.retry')}</Button>
    </PublicPage>
  );
}
