import { initialValues, submitValues } from './form-values';
import { offeredRunners } from './offered';
import type { ConfigDoc, StageSpec, Values } from './types';

export type PipelineConfig = Record<string, Record<string, Values>>;

export const SECTIONS = ['ai', 'trigger', 'safety', 'output'] as const;

/** The AI section shows the runner choice and only the stage of the runner that is chosen. */
export function visibleStages(doc: ConfigDoc, config: PipelineConfig): StageSpec[] {
  if (doc.name !== 'ai') return doc.stages;
  const chosen = config.ai?.runner?.runner;
  return doc.stages
    .filter((stage) => stage.name === 'runner' || stage.name === chosen)
    .map((stage) =>
      stage.name !== 'runner'
        ? stage
        : { ...stage, config: stage.config.map((f) => (f.name === 'runner' && f.options ? { ...f, options: offeredRunners(f.options, chosen) } : f)) },
    );
}

/** A configuration as the forms show it. Sections, stages and fields that no form knows are kept as they are. */
export function initialConfig(docs: ConfigDoc[], stored: PipelineConfig | null | undefined): PipelineConfig {
  const config: PipelineConfig = structuredClone(stored ?? {});
  for (const doc of docs) {
    const section = { ...(config[doc.name] ?? {}) };
    for (const stage of doc.stages) section[stage.name] = initialValues(stage.config ?? [], section[stage.name]);
    config[doc.name] = section;
  }
  return config;
}

export function submitConfig(docs: ConfigDoc[], config: PipelineConfig): PipelineConfig {
  const out: PipelineConfig = structuredClone(config);
  for (const doc of docs) {
    const section = { ...(out[doc.name] ?? {}) };
    for (const stage of doc.stages) section[stage.name] = submitValues(stage.config ?? [], section[stage.name] ?? {});
    out[doc.name] = section;
  }
  return out;
}

export function setStage(config: PipelineConfig, doc: string, stage: string, values: Values): PipelineConfig {
  return { ...config, [doc]: { ...(config[doc] ?? {}), [stage]: values } };
}
