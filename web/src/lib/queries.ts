import { QueryClient, useQuery } from '@tanstack/react-query';
import { ApiError, api } from './api';
import type {
  Adapter, Bot, BotHealth, ConfigDoc, Model, ModelKind, Pipeline, Provider, Requester, ToolRow,
} from './types';

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 10_000,
      refetchOnWindowFocus: false,
      // Repeating a refused request only delays the message that says why.
      retry: (count, error) => count < 1 && error instanceof ApiError && (error.status === 0 || error.status >= 500),
    },
  },
});

export const useBots = () =>
  useQuery({ queryKey: ['bots'], queryFn: async () => (await api.get<{ bots: Bot[] }>('/platform/bots')).bots });
export const useBot = (uuid: string | null) =>
  useQuery({
    queryKey: ['bots', uuid],
    queryFn: async () => (await api.get<{ bot: Bot }>(`/platform/bots/${uuid}`)).bot,
    enabled: uuid !== null,
  });
export const usePipelines = () =>
  useQuery({
    queryKey: ['pipelines'],
    queryFn: async () => (await api.get<{ pipelines: Pipeline[] }>('/pipelines')).pipelines,
  });
export const usePipeline = (uuid: string | null) =>
  useQuery({
    queryKey: ['pipelines', uuid],
    queryFn: async () => (await api.get<{ pipeline: Pipeline }>(`/pipelines/${uuid}`)).pipeline,
    enabled: uuid !== null,
  });
export const useAdapters = () =>
  useQuery({
    queryKey: ['adapters'],
    queryFn: async () => (await api.get<{ adapters: Adapter[] }>('/platform/adapters')).adapters,
    staleTime: Infinity,
  });
export const usePipelineMetadata = () =>
  useQuery({
    queryKey: ['pipeline-metadata'],
    queryFn: async () => (await api.get<{ configs: ConfigDoc[] }>('/pipelines/_/metadata')).configs,
    staleTime: Infinity,
  });
export const useProviders = (enabled = true) =>
  useQuery({
    queryKey: ['providers'],
    queryFn: async () => (await api.get<{ providers: Provider[] }>('/provider/providers')).providers,
    enabled,
  });
export const useTools = () =>
  useQuery({ queryKey: ['tools'], queryFn: async () => (await api.get<{ tools: ToolRow[] }>('/tools')).tools });
export const useRequesters = () =>
  useQuery({
    queryKey: ['requesters'],
    queryFn: async () => (await api.get<{ requesters: Requester[] }>('/provider/requesters')).requesters,
    staleTime: Infinity,
  });
export const useModels = (kind: ModelKind, provider?: string) =>
  useQuery({
    queryKey: ['models', kind, provider ?? 'all'],
    queryFn: async () => {
      const { models } = await api.get<{ models: Model[] }>(`/provider/models/${kind}`, { provider_uuid: provider });
      // One malformed row must not take the whole selector down.
      return (models ?? []).filter((m) => m && typeof m.uuid === 'string' && m.uuid && typeof m.name === 'string' && m.name);
    },
  });
/** Null where the server does not report health. */
export const useBotHealth = (uuid: string, every = 15_000) =>
  useQuery({
    queryKey: ['bot-health', uuid],
    queryFn: async () => {
      try {
        return (await api.get<{ health: BotHealth }>(`/platform/bots/${uuid}/health`)).health;
      } catch (error) {
        if (error instanceof ApiError && error.status === 404) return null;
        throw error;
      }
    },
    refetchInterval: (query) => (query.state.data === null ? false : every),
  });
