import { useTranslation } from 'react-i18next';
import { useBots, usePipelines } from './queries';
import { useSession } from './session';

/** Why nothing more can be created, or null. While the count is unknown the answer is no. */
export function useQuotaReason(resource: 'bots' | 'pipelines'): string | null {
  const { t } = useTranslation();
  const { system } = useSession();
  const bots = useBots();
  const pipelines = usePipelines();
  const limit = resource === 'bots' ? system.limitation?.max_bots : system.limitation?.max_pipelines;
  if (limit === undefined || limit === null || limit < 0) return null;
  const list = resource === 'bots' ? bots : pipelines;
  if (list.data === undefined) return t('quota.counting');
  return list.data.length >= limit ? t('quota.reached', { resource: t(`quota.${resource}`), limit }) : null;
}
