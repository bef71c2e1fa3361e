import { useTranslation } from 'react-i18next';
import { useNavigate } from 'react-router';
import { PublicPage } from '@/components/public-page';
import { useTitle } from '@/components/title';
import { clearSession } from '@/lib/storage';
import { Button } from '@/ui/button';

export function Component() {
  const { t } = useTranslation();
  const navigate = useNavigate();
  useTitle(t('noWorkspace.title'));
  return (
    <PublicPage title={t('noWorkspace.title')} subtitle={t('noWorkspace.text')}>
      <div className="flex flex-col gap-2">
        <Button variant="primary" onClick={() => void navigate('/home', { replace: true })}>{t('common.retry')}</Button>
        <Button
          onClick={() => {
            clearSession();
            void navigate('/login', { replace: true });
          }}
        >
          {t('shell.logout')}
        </Button>
      </div>
    </PublicPage>
  );
}
