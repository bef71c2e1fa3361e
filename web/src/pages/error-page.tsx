import { useTranslation } from 'react-i18next';
import { Link, useRouteError } from 'react-router';
import { CircleAlert, Compass } from 'lucide-react';
import { useTitle } from '@/components/title';
import { Button, buttonClass } from '@/ui/button';
import { EmptyState } from '@/ui/feedback';

export function NotFoundPage({ inside }: { inside?: boolean }) {
  const { t } = useTranslation();
  useTitle(t('page.notFound'));
  return (
    <main className={inside ? '' : 'grid min-h-dvh place-items-center'}>
      <EmptyState
        icon={<Compass aria-hidden />}
        title={t('page.notFound')}
        action={<Link to="/home" className={buttonClass('primary')}>{t('page.toDashboard')}</Link>}
      >
        {t('page.notFoundHint')}
      </EmptyState>
    </main>
  );
}

/** The page of last resort. A failed chunk usually means that the server was updated: reloading cures it. */
export function ErrorPage() {
  const { t } = useTranslation();
  const error = useRouteError();
  useTitle(t('page.crashed'));
  return (
    <main className="grid min-h-dvh place-items-center">
      <EmptyState
        icon={<CircleAlert aria-hidden />}
        title={t('page.crashed')}
        action={
          <div className="flex flex-wrap justify-center gap-2">
            <Button variant="primary" onClick={() => window.location.reload()}>{t('common.reload')}</Button>
            <a href="/home" className={buttonClass()}>{t('page.toDashboard')}</a>
          </div>
        }
      >
        <p>{t('page.crashedHint')}</p>
        <details className="mt-3 text-left">
          <summary className="text-[13px]">{t('common.details')}</summary>
          <pre className="mt-2 max-h-48 overflow-auto rounded-md bg-sunken p-3 text-xs whitespace-pre-wrap">
            {String((error as Error)?.stack ?? (error as Error)?.message ?? error)}
          </pre>
        </details>
      </EmptyState>
    </main>
  );
}
