package exec

type engineState struct{}

type preparedState struct{}
