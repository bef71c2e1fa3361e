import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { Link } from 'react-router';
import { useQuery } from '@tanstack/react-query';
import { Calls, Errors, StatCard, Turns } from '@/components/monitor/tables';
import { api } from '@/lib/api';
import type { MonData } from '@/lib/types';
import { formatNumber } from '@/lib/utils';
import { ErrorState, Spinner } from '@/ui/feedback';
import { Tab, TabList, TabPanel, Tabs } from '@/ui/tabs';

const DAY_MS = 86_400_000;

export function PipelineDashboard({ uuid }: { uuid: string }) {
  const { t, i18n } = useTranslation();
  const lang = i18n.language;
  const [tab, setTab] = useState('messages');
  const query = useQuery({
    queryKey: ['pipeline-dashboard', uuid],
    queryFn: () =>
      api.get<MonData>('/monitoring/data', { pipelineId: uuid, startTime: new Date(Date.now() - DAY_MS).toISOString(), endTime: new Date().toISOString(), limit: 50 }),
    refetchInterval: 15_000,
  });
  if (query.isPending) return <Spinner />;
  if (query.isError) return <ErrorState error={query.error} onRetry={() => void query.refetch()} />;
  const { overview } = query.data;
  return (
    <div className="flex flex-col gap-5">
      <div className="flex flex-wrap items-center justify-between gap-2">
        <p className="text-[13px] text-muted">{t('monitor.ranges.last24Hours')}</p>
        <Link className="text-[13px] text-accent-text hover:underline" to={`/home/monitoring?pipelineId=${uuid}`}>{t('logs.monitoring')}</Link>
      </div>
      <div className="grid grid-cols-2 gap-3 lg:grid-cols-4">
        <StatCard label={t('monitor.totalMessages')} value={formatNumber(overview.total_messages, lang)} />
        <StatCard label={t('monitor.modelCalls')} value={formatNumber(overview.model_calls, lang)} />
        <StatCard label={t('monitor.successRate')} value={overview.total_messages > 0 ? `${formatNumber(overview.success_rate, lang)} %` : '–'} />
        <StatCard label={t('monitor.errors')} value={formatNumber(query.data.totalCount?.errors ?? query.data.errors.length, lang)} />
      </div>
      <Tabs value={tab} onValueChange={setTab}>
        <TabList className="mb-4">
          <Tab value="messages">{t('monitor.messages')}</Tab>
          <Tab value="errors">{t('monitor.errors')}</Tab>
          <Tab value="calls">{t('monitor.modelCalls')}</Tab>
        </TabList>
        <TabPanel value="messages"><Turns data={query.data} /></TabPanel>
        <TabPanel value="errors"><Errors errors={query.data.errors ?? []} /></TabPanel>
        <TabPanel value="calls"><Calls calls={query.data.llmCalls ?? []} /></TabPanel>
      </Tabs>
    </div>
  );
}
