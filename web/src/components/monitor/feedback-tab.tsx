import { useTranslation } from 'react-i18next';
import { useQuery } from '@tanstack/react-query';
import { ThumbsDown, ThumbsUp } from 'lucide-react';
import { api, type Query } from '@/lib/api';
import type { MonFeedback } from '@/lib/types';
import { formatNumber, formatTime } from '@/lib/utils';
import { Badge, Card, EmptyState, ErrorState, Skeleton } from '@/ui/feedback';
import { StatCard } from './tables';

interface Stats {
  total_feedback: number;
  total_likes: number;
  total_dislikes: number;
  satisfaction_rate: number;
}

export function FeedbackTab({ filter }: { filter: Query }) {
  const { t, i18n } = useTranslation();
  const lang = i18n.language;
  const query = useQuery({
    queryKey: ['monitor-feedback', filter],
    queryFn: async () => {
      const [stats, list] = await Promise.all([
        api.get<Stats>('/monitoring/feedback/stats', filter),
        api.get<{ feedback: MonFeedback[] }>('/monitoring/feedback', { ...filter, limit: 50 }),
      ]);
      return { stats, list: list.feedback ?? [] };
    },
  });
  if (query.isPending) return <Skeleton className="h-56" />;
  if (query.isError) return <ErrorState error={query.error} onRetry={() => void query.refetch()} />;
  const { stats, list } = query.data;
  return (
    <div className="flex flex-col gap-4">
      <div className="grid grid-cols-2 gap-3 lg:grid-cols-4">
        <StatCard label={t('feedback.total')} value={formatNumber(stats.total_feedback, lang)} />
        <StatCard label={t('feedback.likes')} value={formatNumber(stats.total_likes, lang)} />
        <StatCard label={t('feedback.dislikes')} value={formatNumber(stats.total_dislikes, lang)} />
        <StatCard label={t('feedback.satisfaction')} value={stats.total_feedback ? `${formatNumber(stats.satisfaction_rate, lang)} %` : '–'} />
      </div>
      {list.length === 0 ? (
        <EmptyState icon={<ThumbsUp aria-hidden />} title={t('feedback.none')}>{t('feedback.noneHint')}</EmptyState>
      ) : (
        <Card>
          <ul className="divide-y">
            {list.map((item) => {
              const like = item.feedback_type === 1;
              return (
                <li key={item.id} className="px-4 py-3">
                  <div className="flex flex-wrap items-center gap-2 text-xs text-muted">
                    <Badge tone={like ? 'ok' : 'bad'}>
                      {like ? <ThumbsUp className="size-3" aria-hidden /> : <ThumbsDown className="size-3" aria-hidden />}
                      {t(like ? 'feedback.like' : 'feedback.dislike')}
                    </Badge>
                    <span>{item.user_id}</span>
                    <span>{item.bot_name}</span>
                    <time className="ml-auto">{formatTime(item.timestamp, lang)}</time>
                  </div>
                  {item.feedback_content && <p className="mt-1 text-sm">{item.feedback_content}</p>}
                </li>
              );
            })}
          </ul>
        </Card>
      )}
    </div>
  );
}
