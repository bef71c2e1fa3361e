import { useEffect } from 'react';
import { useTranslation } from 'react-i18next';
import { useBlocker } from 'react-router';
import { Confirm } from '@/ui/overlay';

/** Asks before an unsaved draft is left behind. Changing a tab of the same page is not leaving it. */
export function UnsavedGuard({ dirty }: { dirty: boolean }) {
  const { t } = useTranslation();
  const blocker = useBlocker(({ currentLocation, nextLocation }) => {
    const same =
      currentLocation.pathname === nextLocation.pathname &&
      new URLSearchParams(currentLocation.search).get('id') === new URLSearchParams(nextLocation.search).get('id');
    // A lost session leaves nothing to save to.
    return dirty && !same && nextLocation.pathname !== '/login';
  });
  useEffect(() => {
    if (!dirty) return;
    const ask = (event: BeforeUnloadEvent) => event.preventDefault();
    window.addEventListener('beforeunload', ask);
    return () => window.removeEventListener('beforeunload', ask);
  }, [dirty]);
  return (
    <Confirm
      open={blocker.state === 'blocked'}
      onOpenChange={(open) => {
        if (!open && blocker.state === 'blocked') blocker.reset();
      }}
      title={t('common.leaveTitle')}
      description={t('common.leaveText')}
      action={t('common.leave')}
      onConfirm={() => {
        if (blocker.state === 'blocked') blocker.proceed();
      }}
    />
  );
}
