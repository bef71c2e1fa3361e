import { useTranslation } from 'react-i18next';
import { useBotHealth } from '@/lib/queries';
import type { BotHealth } from '@/lib/types';
import { Badge, Dot, type Tone } from '@/ui/feedback';

export const HEALTH_TONE: Record<string, Tone> = { running: 'ok', failed: 'bad', stopped: 'warn', disabled: 'neutral' };

export function healthState(health: BotHealth | null | undefined, enabled: boolean): string {
  return health?.state ?? (enabled ? 'enabled' : 'disabled');
}

/** For lists: the state as a dot, in words for screen readers. */
export function HealthDot({ uuid, enabled }: { uuid: string; enabled: boolean }) {
  const { t } = useTranslation();
  const health = useBotHealth(uuid);
  const state = healthState(health.data, enabled);
  return (
    <span className="flex" title={t(`health.${state}`)}>
      <Dot tone={HEALTH_TONE[state] ?? 'ok'} />
      <span className="sr-only">{t(`health.${state}`)}</span>
    </span>
  );
}

export function HealthBadge({ uuid, enabled }: { uuid: string; enabled: boolean }) {
  const { t } = useTranslation();
  const health = useBotHealth(uuid);
  const state = healthState(health.data, enabled);
  const tone = HEALTH_TONE[state] ?? 'ok';
  return (
    <Badge tone={tone} title={health.data?.last_error ?? undefined}>
      <Dot tone={tone} className="size-1.5" />
      {t(`health.${state}`)}
    </Badge>
  );
}
